//! What was said, and what it means; what is wrong is told with its setting, value and remedy.

use super::{ApiServer, Certificate, Config, Role, Settings, file, shown};
use crate::{decider::Missing, domain::label_keys::LabelKeys, webhook::Unavailable};
use clap::Parser;
use std::{path::Path, time::Duration};

/// A command line with nothing but settings.
#[derive(Debug, Parser)]
struct Line {
    #[command(flatten)]
    settings: Settings,
}

fn typed(line: &str) -> Settings {
    Line::try_parse_from(format!("bizrq {line}").split_whitespace()).unwrap().settings
}

fn meant(line: &str) -> Config {
    Config::check(typed(line)).unwrap()
}

#[test]
fn the_least_that_can_be_said_means_the_usual() {
    let config = meant("--cluster east --log ./log --tls-dir ./tls");
    assert!(config.has(Role::Webhook));
    assert_eq!((config.log.as_str(), &config.store), ("./log", &None));
    assert_eq!(config.quota_cluster, "east");
    assert_eq!(config.certificate, Certificate::Folder("./tls".into()));
    assert_eq!(config.listen.to_string(), "0.0.0.0:8443");
    assert_eq!(config.metrics.to_string(), "0.0.0.0:9090");
    assert_eq!(config.clusters[0].api, None);
    assert_eq!(config.clusters[0].reviews.missing, Missing::Allow);
    assert_eq!(config.clusters[0].reviews.unavailable, Unavailable::Refuse);
    assert!(!config.replica.is_empty());
}

#[test]
fn only_who_answers_reviews_needs_a_certificate_and_only_the_role_api_listens_for_who_asks() {
    let alone = meant("--cluster east --log l --roles api --api 127.0.0.1:8090");
    assert_eq!(alone.certificate, Certificate::None);
    assert!(alone.api.is_some() && !alone.has(Role::Webhook));
    let without = meant("--cluster east --log l --tls-dir t --roles webhook --api 127.0.0.1:8090");
    assert_eq!(without.api, None);
}

#[test]
fn clusters_are_reached_as_they_say() {
    let config = meant("--log l --cluster east=in-cluster --cluster west=admin@west,north");
    let apis: Vec<_> = config.clusters.iter().map(|c| (&*c.reviews.cluster, &c.api)).collect();
    let west = Some(ApiServer::Context("admin@west".into()));
    assert_eq!(apis, [("east", &Some(ApiServer::InCluster)), ("west", &west), ("north", &None)]);
    let Certificate::Own { cluster, secret, names, .. } = config.certificate else {
        panic!("a cluster with an API server keeps the certificate")
    };
    assert_eq!((cluster, secret.as_str()), (0, "bizrq-webhook-tls"));
    assert_eq!(names, ["bizrq-webhook.bizrq.svc"]);
}

#[test]
fn what_cannot_be_meant_is_told_with_its_setting_and_a_remedy() {
    let cases = [
        ("--log l --tls-dir t", "--cluster is missing: name the cluster"),
        ("--cluster east --tls-dir t", "--log is missing: name a folder"),
        ("--cluster east --log l", "--tls-dir is missing: name a folder with tls.crt and tls.key"),
        ("--cluster east --log l --roles api", "--api is missing: say where who asks is answered"),
        ("--cluster east,east --log l --tls-dir t", "--cluster: `east`: is named twice"),
        (
            "--cluster a=in-cluster,b=in-cluster --log l",
            "--cluster: `b=in-cluster`: a pod runs in one cluster only",
        ),
        (
            "--cluster a,b --quota-cluster=-c --log l --tls-dir t",
            "--quota-cluster: `-c`: `-c` is no name of a cluster",
        ),
        (
            "--cluster a --log l --tls-dir t --label group=a,group=b",
            "--label: `group=b`: group is given twice",
        ),
        ("--cluster a --log l --tls-dir t --kinds /nowhere", "/nowhere: No such file"),
    ];
    for (line, expected) in cases {
        let error = Config::check(typed(line)).unwrap_err().to_string();
        assert!(error.starts_with(expected), "{line}\n{error}");
    }
}

#[test]
fn quota_objects_of_one_cluster_count_also_if_it_is_served_elsewhere() {
    let cases = [("", [None, Some("a")]), ("b", [Some("b"), None]), ("c", [Some("c"), Some("c")])];
    for (name, elsewhere) in cases {
        let flag = if name.is_empty() { String::new() } else { format!("--quota-cluster {name}") };
        let line = format!("--cluster a,b {flag} --log l --tls-dir t");
        let config = Config::check(typed(&line)).unwrap();
        let found =
            config.clusters.iter().map(|cluster| cluster.reviews.quotas_elsewhere.as_deref());
        assert!(found.eq(elsewhere), "{line}");
    }
}

#[test]
fn what_cannot_be_read_is_told_by_the_command_line() {
    let cases = [
        ("--cluster east=", "names no API server"),
        ("--cluster -", "is no name of a cluster"),
        ("--missing-group default:", "is none of allow, refuse and default:GROUP"),
        ("--label disk=a", "is none of group=KEY, cpu=KEY, memory=KEY and gpu=KEY"),
        ("--label group=/a", "`/a` is no key of a label"),
        ("--roles cook", "possible values: webhook, observe, control, api"),
        ("--listen here", "invalid socket address"),
    ];
    for (line, expected) in cases {
        let words = format!("bizrq {line}");
        let error = Line::try_parse_from(words.split_whitespace()).unwrap_err().to_string();
        assert!(error.contains(expected), "{line}\n{error}");
    }
}

#[test]
fn a_file_says_what_flags_say_and_flags_come_first() {
    let text = "
log: nats://nats:4222
store: /var/lib/bizrq
clusters: [east=in-cluster, west]
quotaCluster: west
missingGroup: default:rest
labels: [group=example.com/team, gpu=example.com/card]
withoutLog: admit
metrics: 127.0.0.1:9000
tlsNames: [bizrq.example.com]
notice: 1
logFormat: json
";
    let said = file::parse(text).unwrap();
    let config = Config::check(typed("--log ./log --notice 7").or(said)).unwrap();
    assert_eq!(config.log, "./log");
    assert_eq!(config.store.as_deref(), Some(Path::new("/var/lib/bizrq")));
    assert_eq!(config.quota_cluster, "west");
    assert_eq!(config.limits.notice, Duration::from_secs(7));
    assert_eq!(config.clusters[1].reviews.missing, Missing::Default("rest".into()));
    assert_eq!(config.clusters[1].reviews.unavailable, Unavailable::Admit);
    assert_eq!(config.metrics.to_string(), "127.0.0.1:9000");
    assert_eq!(
        (&*config.labels.group, &*config.labels.gpu),
        ("example.com/team", "example.com/card")
    );
    assert_eq!(config.labels.cpu, LabelKeys::USUAL.cpu);
    assert_eq!(file::parse("# nothing\n").unwrap(), Settings::default());
}

#[test]
fn what_is_wrong_in_a_file_is_told_with_line_setting_and_value() {
    let cases = [
        ("log: l\nlock: 3\n", 2, "lock: 3: unknown field `lock`, expected one of `roles`"),
        ("log: l\n\nnotice: soon\n", 3, "notice: \"soon\": invalid type: string"),
        ("clusters: [a, 'b=']\n", 1, "clusters: [\"a\",\"b=\"]: `b=` names no API server"),
        ("labels: [gpu=]\n", 1, "labels: [\"gpu=\"]: `` is no key of a label"),
        ("withoutLog: maybe\n", 1, "withoutLog: \"maybe\": unknown variant `maybe`"),
        ("log: [\n", 0, ""),
        ("log: a\nlog: b\n", 2, "duplicate"),
    ];
    for (text, line, expected) in cases {
        let (found, why) = file::parse(text).unwrap_err();
        assert!(why.contains(expected), "{text}\n{why}");
        assert!(line == 0 || found == line, "{text}: line {found}");
    }
}

#[test]
fn what_is_printed_can_be_read_again_and_tells_no_secret() {
    let line =
        "--cluster east=in-cluster --log nats://user:geheim@nats:4222 --label cpu=example.com/chip";
    let settings = typed(line);
    let config = Config::check(settings.clone()).unwrap();
    let text = config.print(settings);
    assert!(!text.contains("geheim"), "{text}");
    let again = Config::check(file::parse(&text).unwrap()).unwrap();
    assert_eq!(again.log, "nats://***@nats:4222");
    assert_eq!(again.clusters, config.clusters);
    assert_eq!(again.replica, config.replica);
    assert_eq!((&again.labels, &*again.labels.cpu), (&config.labels, "example.com/chip"));
    assert_eq!(again.certificate, config.certificate);
}

#[test]
fn what_stands_before_an_at_is_not_shown() {
    let cases = [
        ("./log", "./log"),
        ("./a@b", "./a@b"),
        ("nats://a:4222", "nats://a:4222"),
        ("nats://u:p@a:4222,u:q@b:4222/BIZRQ", "nats://***@b:4222/BIZRQ"),
        ("tls://token@a", "tls://***@a"),
    ];
    for (place, expected) in cases {
        assert_eq!(shown(place), expected);
    }
}
