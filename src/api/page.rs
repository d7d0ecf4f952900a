//! The page: files that are built into the program. It knows nothing that the API does not say.

use super::Api;
use axum::{
    Router,
    http::header,
    response::{IntoResponse, Response},
    routing::get,
};

const HTML: &str = "text/html; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const JS: &str = "text/javascript; charset=utf-8";

/// Path, kind and text of each.
const FILES: &[(&str, &str, &str)] = &[
    ("/", HTML, include_str!("page/index.html")),
    ("/page.css", CSS, include_str!("page/page.css")),
    ("/page.js", JS, include_str!("page/page.js")),
    ("/page/api.js", JS, include_str!("page/api.js")),
    ("/page/charts.js", JS, include_str!("page/charts.js")),
    ("/page/feed.js", JS, include_str!("page/feed.js")),
    ("/page/group.js", JS, include_str!("page/group.js")),
    ("/page/lists.js", JS, include_str!("page/lists.js")),
    ("/page/past.js", JS, include_str!("page/past.js")),
    ("/page/text.js", JS, include_str!("page/text.js")),
    ("/page/tree.js", JS, include_str!("page/tree.js")),
];

/// A route for each file; nobody is asked who they are for it.
pub(super) fn routes() -> Router<Api> {
    FILES.iter().fold(Router::new(), |routes, (path, kind, text)| {
        routes.route(path, get(async || file(kind, text)))
    })
}

/// A newer program has newer files: they are asked for each time.
fn file(kind: &'static str, text: &'static str) -> Response {
    ([(header::CONTENT_TYPE, kind), (header::CACHE_CONTROL, "no-cache")], text).into_response()
}
