//! The webhook's server and its certificates, by a real client over real TLS where there is something to see.

mod answers;
mod certificates;
mod client;
mod cluster;
mod files;
mod hostile;
mod load;
mod router;
mod served;
