//! What people write, and what they are told.

use super::*;

const HEAD: &str = "apiVersion: bizrq.io/v1\nkind: BizGroupResourceQuota\n";

fn parsed(text: &str) -> Objects {
    let mut objects = Objects::default();
    parse("q.yaml", text, &mut objects).unwrap();
    refuse_twins(&mut objects);
    objects
}

fn faults(text: &str) -> Vec<String> {
    parsed(text).faults.iter().map(|f| format!("{}: {}", f.place, f.why)).collect()
}

fn unreadable(text: &str) -> String {
    let mut objects = Objects::default();
    match parse("q.yaml", text, &mut objects) {
        Err(e) => e.to_string(),
        Ok(()) => panic!("{text:?} was read: {objects:?}"),
    }
}

#[test]
fn the_designs_example_is_read() {
    let objects = parsed(&format!(
        "{HEAD}metadata: {{name: team-a}}\nspec:\n  parent: dept-1  # a comment\n  hard:\n    limits.cpu: \"10\"\n    \
         requests.memory: 64Gi\n    limits.nvidia.com/gpu.A30: 4\n    cash/limits.cpu: 1e2\n  charge: Peak\n"
    ));
    assert_eq!(objects.faults, []);
    let object = &objects.good[0];
    assert_eq!(
        (&*object.name, &*object.spec.parent, &*object.place),
        ("team-a", "dept-1", "q.yaml:1")
    );
    let hard: Vec<_> = object.spec.hard.iter().map(|(k, q)| format!("{k}={q}")).collect();
    assert_eq!(
        hard,
        [
            "cash/limits.cpu=100",
            "limits.cpu=10",
            "limits.nvidia.com/gpu.A30=4",
            "requests.memory=64Gi"
        ]
    );
}

#[test]
fn many_documents_and_lists_are_read_and_every_fault_is_told_with_its_line() {
    let good = |name: &str| format!("{HEAD}metadata: {{name: {name}}}\n");
    let text = [
        good("a"),
        format!("{}spec: {{hrad: {{}}}}\n", good("b")),
        format!("{}spec:\n  hard:\n    pods: 1\n    limits.cpu: -1\n    cpus: 2\n", good("c")),
        good("C"),
        "apiVersion: v1\nkind: ConfigMap\n".to_owned(),
        "apiVersion: bizrq.io/v2\nkind: BizGroupResourceQuota\nmetadata: {name: d}\n".to_owned(),
        good("a"),
        "kind: List\nitems:\n- apiVersion: bizrq.io/v1\n  kind: BizGroupResourceQuota\n  metadata: {name: e}\n".to_owned(),
        format!("{HEAD}metadata: {{name: f, namespace: web}}\n"),
        format!("{}spec: {{hard: [1]}}\n", good("g")),
        format!("{}spec: {{hard: {{pods: 1, pods: 2}}}}\n", good("h")),
        format!("{}spec: {{hard: {{pods: null}}}}\n", good("i")),
    ]
    .join("---\n");
    let objects = parsed(&text);
    let names: Vec<_> = objects.good.iter().map(|o| &*o.name).collect();
    assert_eq!(names, ["a", "e"], "{:#?}", objects.faults);
    let told = [
        "q.yaml:8: spec.hrad is no field",
        "q.yaml:16: spec.hard[limits.cpu]: `-1`",
        "q.yaml:17: spec.hard: `cpus`",
        "q.yaml:21: metadata.name: `C`",
        "q.yaml:24: kind: `ConfigMap`",
        "q.yaml:26: apiVersion: `bizrq.io/v2`",
        "q.yaml:42: metadata.namespace is no field",
        "q.yaml:47: something else than a map",
        "q.yaml:52: `pods` stands here a second time",
        "q.yaml:57: nothing stands here",
        "q.yaml:30: metadata.name: `a` is declared in q.yaml:1",
    ];
    let faults = faults(&text);
    assert_eq!(faults.len(), told.len(), "{faults:#?}");
    for (fault, told) in faults.iter().zip(told) {
        assert!(fault.starts_with(told), "{fault}\nis not\n{told}");
    }
}

#[test]
fn what_kubectl_would_read_as_octal_is_not_read_otherwise() {
    let with =
        |amounts: &str| format!("{HEAD}metadata: {{name: a}}\nspec:\n  hard: {{{amounts}}}\n");
    let told = faults(&with("limits.cpu: 010, pods: 007, limits.memory: 0899"));
    let why = "spec.hard[limits.cpu]: `010` is 8 to kubectl, as YAML 1.1 reads it; write 8, or 10";
    assert_eq!(told, [format!("q.yaml:5: {why}")]);
    let good = parsed(&with("limits.cpu: \"010\", pods: '+010', limits.memory: 10"));
    assert_eq!((good.faults.len(), good.good.len()), (0, 1));
    assert_eq!(
        good.good[0].spec.hard.values().map(ToString::to_string).collect::<Vec<_>>(),
        ["10", "10", "10"]
    );
}

#[test]
fn a_bomb_is_refused_before_it_grows() {
    let mut text = format!(
        "{HEAD}metadata:\n  name: a\n  labels:\n    l0: &l0 [x, x, x, x, x, x, x, x, x, x]\n"
    );
    for i in 1..12 {
        let list = vec![format!("*l{}", i - 1); 10].join(", ");
        text.push_str(&format!("    l{i}: &l{i} [{list}]\n"));
    }
    let told = unreadable(&text);
    assert!(told.starts_with("q.yaml:") && told.contains("without anchors"), "{told}");
    let deep =
        format!("{HEAD}metadata: {{name: a, labels: {}{}}}\n", "[".repeat(100), "]".repeat(100));
    assert!(unreadable(&deep).contains("deep nesting"), "{}", unreadable(&deep));
}

#[test]
fn what_is_no_yaml_is_unreadable_with_its_line() {
    for text in [
        "status: b: c\n",
        "spec: {\n",
        "\tspec: 1\n",
        "metadata: \"open\n",
        "metadata: \0\n",
        "metadata: *nobody\n",
    ] {
        let told = unreadable(&format!("{HEAD}{text}"));
        assert!(told.starts_with("q.yaml:"), "{text:?}: {told}");
    }
    assert_eq!(parsed(""), Objects::default());
    assert_eq!(parsed("---\n# nothing\n---\n"), Objects::default());
}

#[test]
fn files_are_bounded_and_utf8() {
    let dir = tempfile::tempdir().unwrap();
    let big = dir.path().join("big.yaml");
    std::fs::write(&big, vec![b'#'; MAX_FILE_BYTES as usize + 1]).unwrap();
    assert!(load(&[big]).unwrap_err().to_string().contains("split it"));
    let latin = dir.path().join("latin.yaml");
    std::fs::write(&latin, b"a: 1\nb: \xe9\n").unwrap();
    assert!(load(&[latin]).unwrap_err().to_string().contains("latin.yaml:2: is not UTF-8"));
    assert_eq!(load(&[dir.path().join("none.yaml")]).unwrap_err().code(), 3);
}

#[test]
fn faults_of_a_cash_period_are_told_with_their_lines() {
    let text = format!(
        "{HEAD}metadata: {{name: a}}\nspec:\n  cashPeriod:\n    every: Month\n    timeZone: Europe/Berln\n    \
         anchor: 2026-02-30\n    carryOver: Both\n    max: 50%\n"
    );
    let told: Vec<_> = parsed(&text).faults.into_iter().map(|f| (f.place, f.why)).collect();
    let line = |n: usize, begins: &str| {
        let (place, why) = &told[n];
        assert!(why.starts_with(begins), "{why}");
        place.rsplit(':').next().unwrap().parse::<usize>().unwrap()
    };
    let zone = line(0, "spec.cashPeriod.timeZone: `Europe/Berln` is no time zone");
    assert_eq!(line(1, "spec.cashPeriod.anchor: `2026-02-30` is no date"), zone + 1);
    let right = text.replace("Berln", "Berlin").replace("02-30", "02-28");
    let period = parsed(&right).good[0].spec.cash_period.clone().unwrap();
    assert_eq!((&*period.time_zone, period.max_percent), ("Europe/Berlin", Some(50)));
    let unknown = parsed(&text.replace("anchor", "anker")).faults[0].why.clone();
    assert!(unknown.starts_with("spec.cashPeriod.anker is no field"), "{unknown}");
}
