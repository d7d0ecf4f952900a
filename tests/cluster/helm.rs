//! The chart on a real API server, by real Helms: installed, upgraded, and gone again.

use super::{
    control_plane::{ControlPlane, own},
    kubectl::Said,
    shared::helms,
};
use serde_json::json;
use std::{
    path::{Path, PathBuf},
    process::Command,
};

/// One Helm at one API server.
struct Helm<'p> {
    program: PathBuf,
    plane: &'p ControlPlane,
}

impl Helm<'_> {
    /// Does something with the chart, which it is given behind the release's name.
    fn chart(&self, verb: &str, words: &str) -> Said {
        let chart = Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy/chart");
        self.run(&format!("{verb} bizrq {} {words}", chart.display()))
    }

    fn run(&self, words: &str) -> Said {
        let mut command = Command::new(&self.program);
        // Nothing of the user's own.
        command.env_clear().env("HOME", self.plane.file("helm"));
        command.arg("--kubeconfig").arg(self.plane.file("kubeconfig"));
        command.args(["--kube-context", "admin", "--namespace", "bizrq"]);
        let output = command.args(words.split_whitespace()).output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        Said { ok: output.status.success(), out: text(output.stdout), err: text(output.stderr) }
    }
}

/// As README has it: first bizrq, then who asks it. No pod runs here: what is tried is what the API server takes.
#[test]
fn helm_installs_upgrades_and_leaves_nothing_behind() {
    let test = "helm_installs_upgrades_and_leaves_nothing_behind";
    let helms = helms(test);
    let Some(plane) = own(test).filter(|_| !helms.is_empty()) else { return };
    let admin = plane.admin();
    let ours = |what: &str| admin.get(&format!("{what} -A -l app.kubernetes.io/name=bizrq"));
    for (name, program) in helms {
        // Its server-side apply refuses what an API server does not know, as the definition's rules before 1.25.
        if name == "helm-4" && plane.version() < (1, 25) {
            println!("{name} is for newer API servers than this one");
            continue;
        }
        let helm = Helm { program, plane: &plane };
        helm.chart("install", "--create-namespace --set webhook.enabled=false").succeeds();
        let set = admin.get("statefulset bizrq -n bizrq");
        assert_eq!(set["spec"]["replicas"], 1, "{name}");
        admin.run("get crd bizgroupresourcequotas.bizrq.io").succeeds();
        admin.run("get validatingwebhookconfiguration bizrq-workloads").fails_with(&["not found"]);

        // What must start without bizrq is not labelled yet.
        let enabled = "--reset-values --set webhook.timeoutSeconds=2";
        helm.chart("upgrade", enabled).fails_with(&[
            "namespace kube-system is not labelled",
            "kubectl label namespace kube-system bizrq.io/excluded=true",
        ]);
        admin.run("get validatingwebhookconfiguration bizrq-workloads").fails_with(&["not found"]);
        let excluded = "label namespace kube-system kube-node-lease bizrq bizrq.io/excluded=true";
        admin.run(excluded).succeeds();
        helm.chart("upgrade", enabled).succeeds();
        let asks = admin.get("validatingwebhookconfiguration bizrq-workloads");
        assert_eq!(asks["webhooks"][0]["timeoutSeconds"], 2, "{name}");

        // Bizrq may be told something else while it is asked.
        let on_nats = format!("{enabled} --set nats=nats://nats.nats:4222 --set replicas=3");
        helm.chart("upgrade", &on_nats).succeeds();
        assert_eq!(admin.get("statefulset bizrq -n bizrq")["spec"]["replicas"], 3, "{name}");
        assert_eq!(ours("poddisruptionbudgets")["items"].as_array().unwrap().len(), 1, "{name}");

        helm.run("uninstall bizrq").succeeds();
        for what in [
            "validatingwebhookconfigurations,clusterroles,clusterrolebindings",
            "statefulsets,services,networkpolicies,poddisruptionbudgets,roles,rolebindings,serviceaccounts",
        ] {
            assert_eq!(ours(what)["items"], json!([]), "{name}: {what}");
        }
        admin
            .run("label namespace kube-system kube-node-lease bizrq bizrq.io/excluded-")
            .succeeds();
    }
}
