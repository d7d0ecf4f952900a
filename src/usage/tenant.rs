//! What a tenant may read of usage and notices: an account of its own on the NATS server, which gets the subjects of its
//! groups from the log's account, and nothing else. Pure text.
//!
//! Permissions of a user in the log's own account would not do: whoever may ask a consumer there may have the answer
//! sent to any subject, also to those of the log.

use crate::event_log::codec::message::token;
use std::fmt::Write as _;

/// Who may read what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tenant {
    /// Its group, by which it is called.
    pub group: String,
    /// The groups that it sees: its own and all below.
    pub sees: Vec<String>,
}

/// A durable consumer of a tenant: it keeps how far the tenant has read one group's usage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Durable {
    /// Its name.
    pub name: String,
    /// What it delivers.
    pub subject: String,
}

impl Tenant {
    /// User and account.
    #[must_use]
    pub fn user(&self) -> String {
        format!("bizrq-tenant-{}", token(&self.group))
    }

    /// The variable of the server's environment that has its password.
    #[must_use]
    pub fn password(&self) -> String {
        let upper = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' };
        format!("BIZRQ_TENANT_{}_PASSWORD", self.group.chars().map(upper).collect::<String>())
    }

    /// Its consumers, one for each group that it sees.
    #[must_use]
    pub fn durables(&self) -> Vec<Durable> {
        let durable = |group: &String| Durable {
            name: match *group == self.group {
                true => name(group),
                false => format!("{}@{}", name(group), name(&self.group)),
            },
            subject: subject(group),
        };
        self.sees.iter().map(durable).collect()
    }

    /// Subjects that it may subscribe to: usage and notices, as they are published.
    #[must_use]
    pub fn subjects(&self) -> Vec<String> {
        let of = |group: &String| [subject(group), format!("bizrq.notice.v1.{}.>", token(group))];
        self.sees.iter().flat_map(of).collect()
    }

    /// Subjects by which it asks its consumers and says what it has: what is asked, and whether many answers come.
    fn requests(&self, stream: &str) -> Vec<(String, bool)> {
        let of = |Durable { name, .. }: Durable| {
            [
                (format!("$JS.API.CONSUMER.MSG.NEXT.{stream}.{name}"), true),
                (format!("$JS.ACK.{stream}.{name}.>"), false),
            ]
        };
        self.durables().into_iter().flat_map(of).collect()
    }
}

/// The subject of a group's usage.
fn subject(group: &str) -> String {
    format!("{}.{}", super::SUBJECT, token(group))
}

/// A group in the name of a consumer. It has no `%`: 2.9 makes a format of the name, and delivers nothing.
fn name(group: &str) -> String {
    let token = token(group).replace('=', "=3D");
    token.replace('@', "=40").replace('/', "=2F").replace('\\', "=5C").replace('%', "=")
}

/// What the log's account exports, as a line of the account's configuration.
#[must_use]
pub fn exports(tenants: &[Tenant], stream: &str) -> String {
    let mut text = String::from("exports: [\n");
    for tenant in tenants {
        let to = quoted(&tenant.user());
        for subject in tenant.subjects() {
            let _ = writeln!(text, "  {{ stream: {}, accounts: [{to}] }}", quoted(&subject));
        }
        for (subject, many) in tenant.requests(stream) {
            let many = if many { "response_type: stream, " } else { "" };
            let _ = writeln!(text, "  {{ service: {}, {many}accounts: [{to}] }}", quoted(&subject));
        }
    }
    text.push_str("]\n");
    text
}

/// The tenants' accounts, to stand beside the log's `account`.
#[must_use]
pub fn accounts(tenants: &[Tenant], account: &str, stream: &str) -> String {
    let (mut text, from) = (String::new(), quoted(account));
    for tenant in tenants {
        let (user, password) = (quoted(&tenant.user()), tenant.password());
        let _ = writeln!(text, "{user}: {{");
        let _ = writeln!(text, "  users: [ {{ user: {user}, password: ${password} }} ]");
        text.push_str("  imports: [\n");
        let streams = tenant.subjects().into_iter().map(|subject| ("stream", subject));
        let services = tenant.requests(stream).into_iter().map(|(subject, _)| ("service", subject));
        for (what, subject) in streams.chain(services) {
            let subject = quoted(&subject);
            let _ = writeln!(text, "    {{ {what}: {{ account: {from}, subject: {subject} }} }}");
        }
        text.push_str("  ]\n}\n");
    }
    text
}

/// A text of the server's configuration.
fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}
