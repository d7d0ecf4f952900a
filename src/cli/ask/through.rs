//! The way to a server through the API server of its cluster: `kubectl` has what it takes, and no port is opened.
//!
//! ```text
//!  bizrq ─ kubeconfig ─▶ API server ─ /api/v1/namespaces/NS/services/NAME:PORT/proxy/… ─▶ bizrq serve
//!           └ keeps `Authorization` to itself, so the token for bizrq goes in `Bizrq-Token`
//! ```

use super::{PATIENCE, Question};
use crate::{api::access::TOKEN, cli::Error};
use axum::body::BodyDataStream;
use futures_util::StreamExt;
use k8s_openapi::api::core::v1::Service;
use kube::{
    Client, Config, Resource,
    client::{Body, ConfigExt},
    config::{KubeConfigOptions, Kubeconfig},
};
use std::{
    fmt,
    io::{self, Read},
    str::FromStr,
};
use tokio::{
    runtime::{Builder, Runtime},
    time::timeout,
};
use tower::{BoxError, Layer, ServiceExt};
use ureq::http::{HeaderValue, Request, Response, header};

/// Where a cluster has the query API: NAMESPACE/NAME:PORT.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    namespace: String,
    /// As the API server knows it, with the port.
    service: String,
}

/// See the head of this file.
pub(super) struct Through {
    runtime: Runtime,
    client: Client,
    /// The user's own; those who have a certificate have none.
    token: Option<String>,
    root: String,
}

/// An answer that is read as it comes.
struct Coming<'a> {
    through: &'a Through,
    body: BodyDataStream,
    /// What came and is not read yet.
    part: bytes::Bytes,
}

impl Through {
    /// # Errors
    /// The kubeconfig cannot be read, or says nothing that works.
    pub(super) fn open(context: Option<&str>, place: &Place) -> Result<Self, Error> {
        let named =
            context.map_or_else(|| "the kubeconfig".to_owned(), |c| format!("--context {c}"));
        let wrong = |why: &dyn fmt::Display| {
            Error::input(&named, format!("{why}; look at `kubectl config get-contexts`"))
        };
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.map_err(|why| wrong(&why))?;
        let kubeconfig = Kubeconfig::read().map_err(|why| wrong(&why))?;
        let context = context.map(str::to_owned);
        let options = KubeConfigOptions { context, ..KubeConfigOptions::default() };
        let (client, token) = runtime.block_on(async {
            let config = Config::from_custom_kubeconfig(kubeconfig, &options).await;
            let mut config = config.map_err(|why| wrong(&why))?;
            config.connect_timeout = Some(PATIENCE);
            // Who asks says how long an answer may take, and a stream has no end.
            config.read_timeout = None;
            // What it says no with is told at once, not tried again.
            config.default_retry = false;
            let token = token(&config).await.map_err(|why| wrong(&why))?;
            Ok::<_, Error>((Client::try_from(config).map_err(|why| wrong(&why))?, token))
        })?;
        let services = Service::url_path(&(), Some(&place.namespace));
        let root = format!("{services}/{}/proxy", place.service);
        Ok(Self { runtime, client, token, root })
    }

    /// Where questions go, for people.
    pub(super) fn root(&self) -> &str {
        &self.root
    }

    /// The status of the answer, and its body as it comes.
    pub(super) fn ask(&self, question: &Question<'_>) -> Result<(u16, Box<dyn Read + '_>), String> {
        let asked = async {
            let response = self.client.send(self.request(question)?).await;
            response.map_err(|why| why.to_string())
        };
        let patient = async {
            match question.patience {
                Some(patience) => {
                    timeout(patience, asked).await.unwrap_or_else(|_| Err("no answer".into()))
                }
                None => asked.await,
            }
        };
        let response = self.runtime.block_on(patient)?;
        let status = response.status().as_u16();
        let body = axum::body::Body::new(response.into_body()).into_data_stream();
        let coming = Coming { through: self, body, part: bytes::Bytes::new() };
        Ok((status, Box::new(coming)))
    }

    fn request(&self, question: &Question<'_>) -> Result<Request<Body>, String> {
        let mut query = form_urlencoded::Serializer::new(String::new());
        for (name, value) in question.query {
            if let Some(value) = value {
                query.append_pair(name, value);
            }
        }
        let uri = format!("{}{}?{}", self.root, question.path, query.finish());
        let mut request = match question.body {
            Some(_) => Request::post(uri).header(header::CONTENT_TYPE, "application/yaml"),
            None => Request::get(uri),
        };
        if let Some(token) = super::token().or_else(|| self.token.clone()) {
            let mut token = HeaderValue::try_from(token).map_err(|why| why.to_string())?;
            token.set_sensitive(true);
            request = request.header(&TOKEN, token);
        }
        for (name, value) in &question.headers {
            request = request.header(*name, *value);
        }
        let body = question.body.unwrap_or_default().as_bytes().to_vec();
        request.body(body.into()).map_err(|why| why.to_string())
    }
}

impl Read for Coming<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        while self.part.is_empty() {
            match self.through.runtime.block_on(self.body.next()) {
                None => return Ok(0),
                Some(part) => self.part = part.map_err(io::Error::other)?,
            }
        }
        let most = self.part.len().min(into.len());
        let part = self.part.split_to(most);
        into.get_mut(..most).unwrap_or_default().copy_from_slice(&part);
        Ok(most)
    }
}

/// The token by which the API server knows the user, if it is one.
async fn token(config: &Config) -> Result<Option<String>, BoxError> {
    let Some(layer) = config.auth_layer()? else { return Ok(None) };
    let shown = layer.layer(tower::service_fn(|request: Request<Body>| async move {
        let header = request.headers().get(header::AUTHORIZATION).cloned();
        Ok::<_, BoxError>(Response::new(header))
    }));
    let header = shown.oneshot(Request::new(Body::empty())).await?.into_body();
    let text = header.as_ref().and_then(|header| header.to_str().ok());
    Ok(text.and_then(|text| text.strip_prefix("Bearer ")).map(str::to_owned))
}

impl FromStr for Place {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let is_name = |name: &str| {
            let is_plain =
                |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-.".contains(c);
            !name.is_empty() && name.chars().all(is_plain)
        };
        let parts = text.split_once('/').map(|(namespace, service)| {
            (namespace, service.strip_prefix("https:").unwrap_or(service), service)
        });
        match parts
            .and_then(|(namespace, named, all)| Some((namespace, named.split_once(':')?, all)))
        {
            Some((namespace, (name, port), service))
                if [namespace, name, port].into_iter().all(is_name) =>
            {
                Ok(Self { namespace: namespace.to_owned(), service: service.to_owned() })
            }
            _ => Err("write NAMESPACE/NAME:PORT, or NAMESPACE/https:NAME:PORT".to_owned()),
        }
    }
}

impl fmt::Debug for Through {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Through").field("root", &self.root).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_is_named_with_its_namespace_and_port() {
        for (text, namespace, service) in [
            ("bizrq/bizrq-api:8090", "bizrq", "bizrq-api:8090"),
            ("a/b:http", "a", "b:http"),
            ("a/https:b:443", "a", "https:b:443"),
        ] {
            let place: Place = text.parse().unwrap();
            assert_eq!((&*place.namespace, &*place.service), (namespace, service));
        }
        for wrong in
            ["", "a", "a/b", "a/b:", "/b:1", "a/:1", "a/b:1/../x", "a/b:1?x", "a/http:b:1", "A/b:1"]
        {
            assert!(wrong.parse::<Place>().is_err(), "{wrong}");
        }
    }
}
