//! `kubectl bizrq`, by the real kubectl and with tokens of the real API server: who may get which quota objects sees
//! which groups, of a server that is asked itself and of one behind the API server's proxy.

use super::{
    control_plane::{ControlPlane, eventually, runtime},
    installation::{Installed, installed, token},
    kubectl::Said,
    shared::skip,
};
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api,
    api::{Patch, PatchParams},
};
use serde_json::{Value, json};
use std::{collections::BTreeSet, os::unix::fs::symlink, path::PathBuf};

/// Where the accounts of these tests are.
const NAMESPACE: &str = "askers";

/// Service accounts: who may get every quota object, who may get `company`'s alone, and who may get none.
struct Askers<'a> {
    installed: &'a Installed,
    folder: PathBuf,
    /// The names of the accounts begin with it.
    test: &'static str,
}

impl<'a> Askers<'a> {
    fn new(installed: &'a Installed, test: &'static str) -> Self {
        let plane = &installed.plane;
        let folder = plane.file(test);
        std::fs::create_dir(&folder).unwrap();
        symlink(env!("CARGO_BIN_EXE_bizrq"), folder.join("kubectl-bizrq")).unwrap();
        plane.namespace(NAMESPACE, &[]);
        let askers = Self { installed, folder, test };
        for (account, rights) in [
            ("all", Some("--resource=bizgroupresourcequotas.bizrq.io")),
            ("tenant", Some("--resource=bizgroupresourcequotas.bizrq.io --resource-name=company")),
            ("nobody", None),
        ] {
            let name = askers.account(account);
            let run = |words: String| plane.admin().run(&words).succeeds();
            run(format!("create serviceaccount {name} -n {NAMESPACE}"));
            if let Some(rights) = rights {
                run(format!("create clusterrole {name} --verb=get {rights}"));
                run(format!(
                    "create clusterrolebinding {name} --clusterrole={name} --serviceaccount={NAMESPACE}:{name}"
                ));
            }
        }
        askers
    }

    fn account(&self, account: &str) -> String {
        format!("{}-{account}", self.test)
    }

    fn token(&self, account: &str) -> String {
        token(&self.installed.plane, NAMESPACE, &self.account(account))
    }

    fn plugin(&self, words: &str, token: Option<&str>) -> Said {
        self.installed.plane.admin().plugin(&self.folder, words, token)
    }
}

fn groups(said: Said) -> BTreeSet<String> {
    let tree: Value = serde_json::from_str(&said.succeeds().out).unwrap();
    let groups = tree["groups"].as_array().unwrap().iter();
    groups.map(|group| group["group"].as_str().unwrap().to_owned()).collect()
}

/// `company` and its departments, as the API server has them.
fn company(plane: &ControlPlane) -> BTreeSet<String> {
    let quotas = plane.admin().get("bizrq");
    let quotas = quotas["items"].as_array().unwrap().iter();
    let named = quotas.map(|quota| (&quota["metadata"]["name"], &quota["spec"]["parent"]));
    let below = named.filter(|(name, parent)| [name, parent].contains(&&&json!("company")));
    below.map(|(name, _)| name.as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_token_of_the_cluster_shows_what_its_bearer_may_get() {
    let Some(installed) = installed("a_token_of_the_cluster_shows_what_its_bearer_may_get") else {
        return;
    };
    let askers = Askers::new(&installed, "tokens");
    // The address of this host that an API server would take for a pod's: to the command it is another host.
    let at = |address| format!("--plain-token --server http://{address}");
    let [server, other] = installed.api().map(at);
    let tree = format!("bizrq tree -o json {server}");
    let ask = |more: &str, account: &str| {
        askers.plugin(&format!("{tree} {more}"), Some(&askers.token(account)))
    };
    let everything = groups(ask("", "all"));
    assert!(everything.contains("others") && everything.contains("company"), "{everything:?}");
    // A table of the same, of the other replica.
    let table = askers.plugin(&format!("bizrq tree company {other}"), Some(&askers.token("all")));
    let table = table.succeeds().out;
    let line = table.lines().find(|line| line.trim().starts_with("company ")).unwrap();
    assert!(line.contains("limits.cpu") && line.contains("1k"), "{table}");

    ask("", "tenant").fails_with(&["name yours in the header Bizrq-Group"]);
    let own = groups(ask("--as-group company", "tenant"));
    let expected = company(&installed.plane);
    assert!(expected.len() > 5 && own.is_superset(&expected), "{own:?} {expected:?}");
    assert!(!own.contains("others") && own.is_subset(&everything), "{own:?}");
    // What is hidden is answered as what is not there.
    let refused = |group: &str| {
        let said = ask(&format!("--as-group {group}"), "tenant").fails_with(&["no group that"]);
        said.err.replace(group, "GROUP")
    };
    assert_eq!(refused("others"), refused("such-a-group"));
    ask("", "nobody").fails_with(&["does not show every group"]);
    ask("--as-group company", "nobody").fails_with(&["no group that this token shows"]);
    askers.plugin(&tree, Some("made-up")).fails_with(&["a token that is known here"]);
    askers.plugin(&tree, None).fails_with(&["set BIZRQ_TOKEN"]);

    // A right that is taken away shows nothing half a minute later.
    let binding = format!("delete clusterrolebinding {}", askers.account("all"));
    let kept = askers.token("all");
    groups(askers.plugin(&tree, Some(&kept)));
    installed.plane.admin().run(&binding).succeeds();
    eventually("who lost the right sees nothing", || {
        let said = askers.plugin(&tree, Some(&kept));
        if said.err.contains("does not show every group") {
            Ok(())
        } else {
            Err(said.out + &said.err)
        }
    });
}

/// Without a port of one's own, by the kubeconfig alone. A replica is the endpoint of the chart's Service.
#[test]
fn the_api_server_leads_to_bizrq_whoever_may_go_there() {
    let test = "the_api_server_leads_to_bizrq";
    let Some(installed) = installed(test) else { return };
    let [address, _] = installed.api();
    if address.ip().is_loopback() {
        skip(
            test,
            "this host has no address but the loopback's, which an API server takes for no pod's",
        );
        return;
    }
    let askers = Askers::new(&installed, "proxy");
    let plane = &installed.plane;
    // An API server goes only where a pod is: one that has the replica's address, as far as it knows.
    let name = "asked";
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "bizrq"},
        "spec": {"containers": [{"name": "main", "image": "stand-in"}]}});
    eventually("a pod", || plane.admin().apply(&pod).done());
    let ip = address.ip().to_string();
    let status = json!({"status": {"podIP": ip, "podIPs": [{"ip": ip}]}});
    let target = json!({"kind": "Pod", "name": name, "namespace": "bizrq"});
    let subset = json!({"addresses": [{"ip": ip, "targetRef": target}],
        "ports": [{"name": "api", "port": address.port(), "protocol": "TCP"}]});
    let endpoints = json!({"apiVersion": "v1", "kind": "Endpoints",
        "metadata": {"name": "bizrq-api", "namespace": "bizrq"}, "subsets": [subset]});
    let unselected = "patch service bizrq-api -n bizrq --type=json -p [{\"op\":\"remove\",\"path\":\"/spec/selector\"}]";
    plane.admin().run(unselected).succeeds();

    // As the chart has it: a role that is bound to those who may ask.
    for account in ["all", "tenant"] {
        let name = askers.account(account);
        plane.add_user(&name, &askers.token(account));
        let bind = format!(
            "create rolebinding {name} -n bizrq --role=bizrq-asker --serviceaccount={NAMESPACE}:{name}"
        );
        plane.admin().run(&bind).succeeds();
    }
    let ask = |words: &str, account: &str| {
        let words = format!("bizrq {words} --context {}", askers.account(account));
        askers.plugin(&words, None)
    };
    eventually("the API server says that nobody is there yet", || {
        let said = ask("tree", "all");
        if said.err.contains("no endpoints available for service") { Ok(()) } else { Err(said.err) }
    });
    let everything = eventually("all see all", || {
        // A controller that still knew the selector, or the stand-in for a kubelet, may have written after us.
        let pods: Api<Pod> = Api::namespaced(plane.nodes.client.clone(), "bizrq");
        let (how, patch) = (PatchParams::default(), Patch::Merge(&status));
        runtime().block_on(pods.patch_status(name, &how, &patch)).map_err(|why| why.to_string())?;
        plane.admin().apply(&endpoints).done()?;
        let said = ask("tree -o json", "all");
        if said.ok { Ok(groups(said)) } else { Err(said.err) }
    });
    assert!(everything.contains("others"), "{everything:?}");
    // The kubeconfig's current context is the administrator's.
    assert_eq!(groups(askers.plugin("bizrq tree -o json", None)), everything);
    let own = groups(ask("tree -o json --as-group company", "tenant"));
    assert!(own.is_superset(&company(plane)) && !own.contains("others"), "{own:?}");
    ask("tree", "tenant").fails_with(&["name yours in the header Bizrq-Group"]);
    // Another's token goes where one's own would.
    let narrowed =
        format!("bizrq tree -o json --as-group company --context {}", askers.account("all"));
    let others = askers.plugin(&narrowed, Some(&askers.token("tenant")));
    assert_eq!(groups(others), own);

    // Pages, bodies and streams go the same way.
    let events = ask("events --from 1 --most 20 -o json", "all").succeeds().out;
    assert_eq!(events.lines().count(), 20, "{events}");
    let manifest = plane.file("fits.json");
    let labels = json!({"biz.group.resource.quota": "small"});
    let asked = super::pods::deployment("askers", "large", &labels, 11, "1");
    std::fs::write(&manifest, asked.to_string()).unwrap();
    let fits = ask(&format!("fits {} -o json", manifest.display()), "all");
    let told: Value = serde_json::from_str(&fits.out).unwrap_or_else(|_| panic!("{fits:?}"));
    assert_eq!(
        (&told["fits"], &told["reason"]),
        (&json!(false), &json!("QuotaExceeded")),
        "{told}"
    );

    // What the API server itself refuses, in its words.
    plane.add_user(&askers.account("nobody"), &askers.token("nobody"));
    let forbidden = "cannot get resource \"services/proxy\"";
    ask("tree", "nobody").fails_with(&[forbidden, "\"bizrq-api:8090\""]);
    ask("tree --service bizrq/no-such:8090", "all").fails_with(&["cannot get resource"]);
    askers.plugin("bizrq tree --service bizrq/no-such:8090", None).fails_with(&["no-such"]);
    askers.plugin("bizrq tree --context no-such", None).fails_with(&["no-such", "get-contexts"]);
}
