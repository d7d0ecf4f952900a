//! `kubectl bizrq`, by the real kubectl and with tokens of the real API server: who may get which quota objects sees
//! which groups.

use super::{
    control_plane::{ControlPlane, eventually},
    installation::{Installed, installed, token},
    kubectl::Said,
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
    let [server, other] = installed.api().map(|address| format!("--server http://{address}"));
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
