//! The page: three files that are built into the program. It knows nothing that the API does not say.

use axum::{http::header, response::IntoResponse};

pub(super) async fn html() -> impl IntoResponse {
    file("text/html; charset=utf-8", include_str!("page/index.html"))
}

pub(super) async fn css() -> impl IntoResponse {
    file("text/css; charset=utf-8", include_str!("page/page.css"))
}

pub(super) async fn js() -> impl IntoResponse {
    file("text/javascript; charset=utf-8", include_str!("page/page.js"))
}

/// A newer program has newer files: they are asked for each time.
fn file(kind: &'static str, text: &'static str) -> impl IntoResponse {
    ([(header::CONTENT_TYPE, kind), (header::CACHE_CONTROL, "no-cache")], text)
}
