//! Mirrors: what `kubectl get bizrq` shows in a cluster whose own quota objects do not count, and what becomes of them.

use super::{
    control_plane::{eventually, own},
    installation::{ACCOUNT, Installed, QUOTA_CLUSTER, installed, quota},
    kubectl::Kubectl,
};
use serde_json::Value;
use std::collections::BTreeMap;

const CLUSTER: &str = "mirrored";

/// Names of the quota objects, with their cores and the cluster that they are mirrors of.
fn quotas(kubectl: &Kubectl) -> BTreeMap<String, (String, Option<String>)> {
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let mut quotas = kubectl.get("bizrq");
    let quotas = quotas["items"].as_array_mut().unwrap().drain(..);
    let shown = quotas.map(|quota| {
        let label = quota["metadata"]["labels"]["bizrq.io/mirror-of"].as_str().map(str::to_owned);
        (text(&quota["metadata"]["name"]), (text(&quota["spec"]["hard"]["limits.cpu"]), label))
    });
    shown.collect()
}

#[test]
fn quota_objects_are_mirrored_and_mirrors_are_read_only() {
    let test = "quota_objects_are_mirrored_and_mirrors_are_read_only";
    let Some(first) = installed(test) else { return };
    let Some(plane) = own(test) else { return };
    // As the chart has it with `mirrors: true`.
    let admin = plane.admin();
    let role = "create clusterrole bizrq-mirrors --verb=create,update,delete --resource=bizgroupresourcequotas.bizrq.io";
    let bind = format!(
        "create clusterrolebinding bizrq-mirrors --clusterrole=bizrq-mirrors --serviceaccount=bizrq:{ACCOUNT}"
    );
    // kubectl asks whether there is such a kind.
    super::definition::install_on(&plane);
    for command in [role, &bind] {
        admin.run(command).succeeds();
    }
    // Somebody's own, from before.
    admin.apply(&quota("mirrored-theirs", "", 77)).succeeds();
    let second = Installed::mirroring(plane, CLUSTER, first.log.clone());
    let (there, here) = (first.plane.admin(), second.plane.admin());
    let shows = |name: &str, cores: Option<&str>| {
        let expected = cores.map(|cores| (cores.to_owned(), Some(QUOTA_CLUSTER.to_owned())));
        eventually(&format!("{name} is mirrored as {cores:?}"), || {
            let found = quotas(&here).remove(name);
            if found == expected { Ok(()) } else { Err(format!("{found:?}\n{}", second.said())) }
        });
    };
    shows("company", Some("1k"));
    shows("small", Some("10"));
    assert_eq!(here.get("bizrq small")["spec"]["parent"], "company");
    eventually("its status is that of the one that counts", || {
        let status = |kubectl: &Kubectl| kubectl.get("bizrq company")["status"]["used"].take();
        let (mirror, counts) = (status(&here), status(&there));
        if mirror == counts && !counts.is_null() {
            Ok(())
        } else {
            Err(format!("{mirror} {counts}"))
        }
    });

    // Whoever may write quota objects is told where.
    let refused =
        ["`small` is a mirror of the quota object in cluster `main`: change or remove that one"];
    here.apply(&quota("small", "company", 100)).fails_with(&refused);
    here.run("delete bizrq small").fails_with(&refused);
    here.run("label bizrq small bizrq.io/mirror-of-").fails_with(&refused);
    here.run("label bizrq small --overwrite bizrq.io/mirror-of=elsewhere").succeeds();
    shows("small", Some("10"));
    here.run("annotate bizrq small note=read").succeeds();

    // What changes there changes here.
    there.apply(&quota("mirrored", "", 5)).succeeds();
    shows("mirrored", Some("5"));
    there.apply(&quota("mirrored", "", 7)).succeeds();
    shows("mirrored", Some("7"));
    there.run("delete bizrq mirrored").succeeds();
    shows("mirrored", None);

    // What is somebody's stays so, and that is told.
    let in_the_way = |objects| {
        eventually(&format!("{objects} in the way"), || {
            let found = second.counted("bizrq_mirrors_in_the_way");
            if found == objects { Ok(()) } else { Err(found.to_string()) }
        });
    };
    there.apply(&quota("mirrored-theirs", "", 3)).succeeds();
    eventually("the name that is taken is told", || {
        let said = second.said();
        let line = "mirrored-theirs: an object that is no mirror has this name, and is left alone";
        if said.contains(line) { Ok(()) } else { Err(said) }
    });
    assert_eq!(quotas(&here)["mirrored-theirs"], ("77".to_owned(), None));
    in_the_way(1);
    here.run("delete bizrq mirrored-theirs").succeeds();
    shows("mirrored-theirs", Some("3"));
    in_the_way(0);
    there.run("delete bizrq mirrored-theirs").succeeds();
    shows("mirrored-theirs", None);

    // Mirrors are no facts: everything that is declared was declared by the cluster whose objects count, or the log.
    let from_here = format!("/clusters/{CLUSTER}");
    let told = second.tail("quota");
    assert!(!told.is_empty() && told.iter().all(|record| record["event"]["source"] != from_here));
}
