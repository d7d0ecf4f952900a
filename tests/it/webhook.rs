//! The webhook's server and its certificates, by a real client over real TLS where there is something to see.

mod answers;
mod certificates;
pub(crate) mod client;
mod cluster;
mod configuration;
mod files;
mod hostile;
mod load;
mod router;
pub(crate) mod served;
