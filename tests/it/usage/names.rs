//! Names of groups that are no tokens of NATS, in all that is made of them.

use bizrq::{
    event_log::codec::message::token,
    usage::tenant::{Tenant, exports},
};

#[test]
fn names_that_are_no_tokens_stay_apart_and_whole() {
    for (name, expected) in [
        ("team-a", "team-a"),
        ("a.b c", "a%2Eb%20c"),
        ("*>%", "%2A%3E%25"),
        ("ä\n", "%C3%A4%0A"),
        ("", "_"),
        ("_", "%5F"),
    ] {
        assert_eq!(token(name), expected);
    }
    let sees = ["a.b", "a", "b@c", "x/y", "", "_", "q\"\\ *>"].map(Into::into).into();
    let tenant = Tenant { group: "a.b".into(), sees };
    let durables = tenant.durables();
    let names: Vec<_> = durables.iter().map(|durable| &*durable.name).collect();
    let expected = [
        "a=2Eb",
        "a@a=2Eb",
        "b=40c@a=2Eb",
        "x=2Fy@a=2Eb",
        "_@a=2Eb",
        "=5F@a=2Eb",
        "q\"=5C=20=2A=3E@a=2Eb",
    ];
    assert_eq!(names, expected);
    assert_eq!(durables[6].subject, "bizrq.usage.v1.q\"\\%20%2A%3E");
    assert_eq!(tenant.user(), "bizrq-tenant-a%2Eb");
    assert_eq!(tenant.password(), "BIZRQ_TENANT_A_B_PASSWORD");
    let text = exports(&[tenant], "BIZRQ_USAGE");
    // A quotation mark and a backslash, as the server's configuration writes them.
    assert!(text.contains(r#"{ stream: "bizrq.usage.v1.q\"\\%20%2A%3E", accounts:"#), "{text}");
}
