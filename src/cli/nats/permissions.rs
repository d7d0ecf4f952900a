//! `bizrq nats permissions`: the configuration of a NATS server by which a tenant reads its own subtree.

use crate::{
    cli::{
        Answer, Error,
        opened_log::OpenedLog,
        out::{Out, note},
    },
    domain::ledger::{Ledger, Options},
    event_log::{AnyLog, jetstream::JetStreamLog},
    usage::{
        self,
        tenant::{self, Tenant},
    },
};
use std::collections::BTreeMap;

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  bizrq nats permissions --log nats://localhost:4222 --group language
  bizrq nats permissions --log nats://localhost:4222 --group language --group vision --part exports > exports.conf
  bizrq nats permissions --log nats://localhost:4222 --group language --group vision --part accounts > tenants.conf
  bizrq nats permissions --log nats://localhost:4222 --group language --make-consumers

Each tenant is an account of its own with one user, whose password the server takes from its environment. Give all
tenants at once, and again when the tree of groups changes. What is printed follows from the tree as it is now.")]
pub(in crate::cli) struct Args {
    /// The log, nats://host:port,…
    #[arg(long, value_name = "LOG")]
    log: String,
    /// A tenant: it reads this group and what is below. May be given several times
    #[arg(long = "group", value_name = "GROUP", required = true)]
    groups: Vec<String>,
    /// Only one part, to be included in the server's configuration
    #[arg(long, value_enum)]
    part: Option<Part>,
    /// The account that has the log
    #[arg(long, value_name = "NAME", default_value = "BIZRQ")]
    account: String,
    /// Make the tenants' durable consumers, too; this takes an administrator's credentials
    #[arg(long)]
    make_consumers: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Part {
    /// For the account that has the log
    Exports,
    /// To stand beside that account
    Accounts,
}

pub(super) fn run(args: &Args, out: &mut Out) -> Result<Answer, Error> {
    let log = OpenedLog::open_read(&args.log)?;
    let mut ledger = Ledger::new(Options { history: false, ..Options::default() });
    log.fold(&mut ledger, |_| true, |_| {})?;
    let tenants = args.groups.iter().map(|group| tenant(&ledger, group));
    let tenants = tenants.collect::<Result<Vec<_>, _>>()?;
    distinct(&tenants)?;
    let stream = log.with_log(async |log: &AnyLog| {
        let log = stream_log(log)?;
        let failed = |error: usage::Error| Error::log(&args.log, error);
        if args.make_consumers {
            let made = usage::make_consumers(log, &tenants).await.map_err(failed)?;
            note(format!("{made} durable consumers are there"));
        }
        usage::stream_name(log).await.map_err(failed)
    })?;
    if args.part != Some(Part::Accounts) {
        if args.part.is_none() {
            out.line(format_args!("# In the account {}, beside its users:", args.account))?;
        }
        out.bytes(tenant::exports(&tenants, &stream).as_bytes())?;
    }
    if args.part != Some(Part::Exports) {
        if args.part.is_none() {
            out.line(format_args!("# In accounts, beside {}:", args.account))?;
        }
        out.bytes(tenant::accounts(&tenants, &args.account, &stream).as_bytes())?;
    }
    Ok(Answer::Yes)
}

fn stream_log(log: &AnyLog) -> Result<&JetStreamLog, Error> {
    match log {
        AnyLog::JetStream(log) => Ok(log),
        _ => Err(Error::Usage(
            "--log: usage is published where the log is on a NATS server; give nats://host:port"
                .to_owned(),
        )),
    }
}

fn tenant(ledger: &Ledger, group: &str) -> Result<Tenant, Error> {
    let (names, book) = (ledger.names(), ledger.book());
    let known = names.known_group(group).filter(|_| !group.is_empty());
    let declared = known.zip(book).filter(|(id, book)| book.declaration(*id).is_some());
    let Some((id, book)) = declared else {
        return Err(Error::Usage(format!(
            "--group: no group is declared as `{group}`; see bizrq quota tree"
        )));
    };
    let mut sees: Vec<_> = book.subtree(id).into_iter().map(|id| names.group_name(id)).collect();
    sees.sort_unstable();
    Ok(Tenant { group: group.to_owned(), sees: sees.into_iter().map(str::to_owned).collect() })
}

/// No two tenants share a password's variable.
fn distinct(tenants: &[Tenant]) -> Result<(), Error> {
    let mut passwords = BTreeMap::new();
    for tenant in tenants {
        if let Some(other) = passwords.insert(tenant.password(), &tenant.group) {
            return Err(Error::Usage(format!(
                "--group: `{other}` and `{}` would have the same password, ${}; give one of them in a run of its own and name its variable anew",
                tenant.group,
                tenant.password()
            )));
        }
    }
    Ok(())
}
