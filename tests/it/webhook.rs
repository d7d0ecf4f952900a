//! The webhook's server and its certificates, by a real client over real TLS where there is something to see.

mod answering;
mod answers;
mod asking;
mod certificates;
pub(crate) mod client;
mod cluster;
mod company;
mod configuration;
mod files;
mod hostile;
mod load;
mod mirrors;
mod router;
mod sequences;
pub(crate) mod served;
mod surroundings;
