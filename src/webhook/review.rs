//! An AdmissionReview, read in one pass: what is asked, by whom, about which object; of the objects only what their kind's
//! declaration names.
//!
//! Members come in any order. An object that cannot be understood is no reason not to answer: the review is read a second time around it, and the
//! refusal says what is wrong with it. What is no review at all is [`Malformed`], HTTP 400.

use crate::domain::text::Text;
use crate::k8s::{
    crd::QuotaObject,
    kinds::{Kind, Kinds, Object, Reading},
    meta::{ObjectMeta, nullable},
};
use serde::{
    Deserialize, Deserializer,
    de::{self, DeserializeSeed, IgnoredAny, MapAccess, Visitor},
};
use serde_json::value::RawValue;
use std::{fmt, sync::Arc};

/// A review with two objects of 3 MiB, more than any API server takes, and what is around them. The server takes less.
pub const MAX_REVIEW_BYTES: usize = 8 << 20;

/// What is asked.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// Names the review; of a review that is repeated the same.
    pub uid: String,
    /// API group and version of the object.
    pub api_version: String,
    /// Its kind.
    pub kind: String,
    /// API group and version of the resource: of a scale its parent's.
    pub resource_api_version: String,
    /// The plural in the API; of a scale its parent's.
    pub resource: String,
    /// `scale`, `status`, `resize`; empty for the object itself.
    pub sub_resource: String,
    /// The object's name.
    pub name: String,
    /// Its namespace.
    pub namespace: String,
    /// What is done.
    pub operation: Verb,
    /// Who asks.
    pub user: String,
    /// Nothing is to be written.
    pub dry_run: bool,
    /// What the object is to be.
    pub object: Body,
    /// What it was.
    pub old: Body,
}

/// What is done to an object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Verb {
    /// It comes into being.
    #[default]
    Create,
    /// It changes.
    Update,
    /// It goes.
    Delete,
    /// Somebody connects to it.
    Connect,
}

/// An object of a review.
#[derive(Clone, Debug, Default)]
pub enum Body {
    /// There is none, or nobody needs to look at it.
    #[default]
    Nothing,
    /// An object of a declared kind.
    Object(Arc<Kind>, Box<Object>),
    /// How many replicas somebody wants.
    Scale(Box<Scale>),
    /// A quota object.
    Quota(Box<QuotaObject>),
    /// It cannot be understood.
    Wrong(Box<Wrong>),
}

/// An object that cannot be understood.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Wrong {
    /// Why.
    pub why: String,
    /// It is being deleted.
    pub deleting: bool,
    /// The text of its specification.
    spec: Option<Box<str>>,
}

/// The scale subresource of some object: its metadata are the object's.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Scale {
    /// Name, uid and version of the object that is scaled.
    #[serde(deserialize_with = "nullable")]
    pub metadata: ObjectMeta,
    /// What is wanted.
    #[serde(deserialize_with = "nullable")]
    pub spec: ScaleSpec,
}

/// `spec` of a scale.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default)]
pub struct ScaleSpec {
    /// So many; none is how the API server writes 0.
    pub replicas: Option<i64>,
}

/// What is no review.
#[derive(Debug, thiserror::Error)]
pub enum Malformed {
    /// Too long.
    #[error("the review has {0} bytes; the most is {MAX_REVIEW_BYTES}")]
    TooLarge(usize),
    /// No JSON, or a value of the wrong type.
    #[error("the review cannot be read: {0}")]
    Json(#[from] serde_json::Error),
    /// Another version, or something else.
    #[error(
        "`{kind}` of `{api_version}` is no review; send an AdmissionReview of admission.k8s.io/v1"
    )]
    Other {
        /// What it says it is.
        api_version: String,
        /// Of which kind.
        kind: String,
    },
    /// There is no request in it, or one without a uid.
    #[error("request.{0}: missing; an API server always sends it")]
    Missing(&'static str),
}

impl Request {
    /// Reads a review.
    ///
    /// # Errors
    /// [`Malformed`].
    pub fn decode(bytes: &[u8], kinds: &Kinds) -> Result<Self, Malformed> {
        if bytes.len() > MAX_REVIEW_BYTES {
            return Err(Malformed::TooLarge(bytes.len()));
        }
        // Checked once as a whole, which is much faster than text by text.
        let text = std::str::from_utf8(bytes).map_err(<serde_json::Error as de::Error>::custom)?;
        let review = match read(text, kinds, false) {
            Ok(review) => review,
            Err(_) => read(text, kinds, true)?,
        };
        let Review { api_version, kind, request } = review;
        if (&*api_version, &*kind) != ("admission.k8s.io/v1", "AdmissionReview") {
            let short = |text: String| text.chars().take(80).collect();
            return Err(Malformed::Other { api_version: short(api_version), kind: short(kind) });
        }
        match request {
            None => Err(Malformed::Missing("uid")),
            Some(request) if request.uid.is_empty() => Err(Malformed::Missing("uid")),
            Some(request) if request.is_scale() && request.sub_resource.is_empty() => {
                Err(Malformed::Missing("subResource"))
            }
            Some(request) => Ok(request),
        }
    }

    /// Whether it is about a quota object.
    #[must_use]
    pub fn is_quota(&self) -> bool {
        QuotaObject::is(&self.api_version, &self.kind)
    }

    /// Whether its objects are those of a scale subresource.
    fn is_scale(&self) -> bool {
        self.kind == "Scale" && self.api_version.starts_with("autoscaling/")
    }

    /// How its objects are to be read.
    fn how<'k>(&self, kinds: &'k Kinds) -> How<'k> {
        match &*self.sub_resource {
            "scale" => How::Scale,
            "" if self.is_quota() => How::Quota,
            "" | "resize" => kinds.find(&self.api_version, &self.kind).map_or(How::Not, How::Kind),
            // Status, bindings, evictions, ephemeral containers (which have no resources): nothing grows.
            _ => How::Not,
        }
    }
}

impl Body {
    /// Whether both are the same as far as can be told of what cannot be understood.
    pub(super) fn is_as_wrong_as(&self, old: &Self) -> bool {
        match (self, old) {
            (Self::Wrong(new), Self::Wrong(old)) => new.spec.is_some() && new.spec == old.spec,
            _ => false,
        }
    }
}

#[derive(Default)]
struct Review {
    api_version: String,
    kind: String,
    request: Option<Request>,
}

/// How the objects of a review are to be read.
#[derive(Clone, Copy, Debug)]
enum How<'k> {
    Kind(&'k Arc<Kind>),
    Scale,
    Quota,
    /// Not at all.
    Not,
}

fn read(text: &str, kinds: &Kinds, around: bool) -> Result<Review, serde_json::Error> {
    let mut json = serde_json::Deserializer::from_str(text);
    let review = Outer(Reader { kinds, around }).deserialize(&mut json)?;
    json.end()?;
    Ok(review)
}

/// Reads with a table of kinds; with `around`, objects are taken as texts first.
#[derive(Clone, Copy)]
struct Reader<'k> {
    kinds: &'k Kinds,
    around: bool,
}

/// The review.
struct Outer<'k>(Reader<'k>);

/// Its request.
struct Inner<'k>(Reader<'k>);

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
enum OuterField {
    ApiVersion,
    Kind,
    Request,
    #[serde(other)]
    Other,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
enum InnerField {
    Uid,
    Kind,
    Resource,
    SubResource,
    Name,
    Namespace,
    Operation,
    UserInfo,
    Object,
    OldObject,
    DryRun,
    #[serde(other)]
    Other,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Gvk<'t> {
    #[serde(borrow, deserialize_with = "nullable")]
    group: Text<'t>,
    #[serde(borrow, deserialize_with = "nullable")]
    version: Text<'t>,
    #[serde(borrow, deserialize_with = "nullable")]
    kind: Text<'t>,
    #[serde(borrow, deserialize_with = "nullable")]
    resource: Text<'t>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct UserInfo {
    #[serde(deserialize_with = "nullable")]
    username: String,
}

impl<'de> DeserializeSeed<'de> for Outer<'_> {
    type Value = Review;
    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Review, D::Error> {
        from.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Outer<'_> {
    type Value = Review;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an AdmissionReview")
    }
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Review, A::Error> {
        let mut review = Review::default();
        while let Some(field) = map.next_key()? {
            match field {
                OuterField::ApiVersion => review.api_version = text(&mut map)?.to_string(),
                OuterField::Kind => review.kind = text(&mut map)?.to_string(),
                OuterField::Request => review.request = Some(map.next_value_seed(Inner(self.0))?),
                OuterField::Other => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(review)
    }
}

impl<'de> DeserializeSeed<'de> for Inner<'_> {
    type Value = Request;
    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Request, D::Error> {
        from.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Inner<'_> {
    type Value = Request;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a request")
    }
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Request, A::Error> {
        let mut request = Request::default();
        let (mut object, mut old, mut read_as) = (None, None, None);
        while let Some(field) = map.next_key()? {
            match field {
                InnerField::Uid => request.uid = text(&mut map)?.to_string(),
                InnerField::Kind => {
                    let of: Gvk<'_> = map.next_value()?;
                    (request.api_version, request.kind) = (of.api_version(), of.kind.to_string());
                }
                InnerField::Resource => {
                    let resource: Gvk<'_> = map.next_value()?;
                    request.resource_api_version = resource.api_version();
                    request.resource = resource.resource.to_string();
                }
                InnerField::SubResource => request.sub_resource = text(&mut map)?.to_string(),
                InnerField::Name => request.name = text(&mut map)?.to_string(),
                InnerField::Namespace => request.namespace = text(&mut map)?.to_string(),
                InnerField::Operation => request.operation = verb(&text(&mut map)?)?,
                InnerField::UserInfo => {
                    request.user =
                        map.next_value::<Option<UserInfo>>()?.unwrap_or_default().username;
                }
                InnerField::Object => match self.0.how(&request) {
                    Some(how) => {
                        request.object = map.next_value_seed(how)?;
                        read_as = Some(how);
                    }
                    None => object = map.next_value()?,
                },
                InnerField::OldObject => match self.0.how(&request) {
                    Some(how) => {
                        request.old = map.next_value_seed(how)?;
                        read_as = Some(how);
                    }
                    None => old = map.next_value()?,
                },
                InnerField::DryRun => {
                    request.dry_run = map.next_value::<Option<_>>()?.unwrap_or_default()
                }
                InnerField::Other => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        let how = request.how(self.0.kinds);
        if read_as.is_some_and(|read_as| !read_as.is(how)) {
            // Read anew, with the objects last.
            return Err(de::Error::custom("what it is about stands behind its objects"));
        }
        if let Some(text) = object {
            request.object = how.understand(text);
        }
        if let Some(text) = old {
            request.old = how.understand(text);
        }
        Ok(request)
    }
}

impl<'k> Reader<'k> {
    /// How an object is read in its place; `None`: as a text, to be understood when its kind is known.
    fn how(&self, request: &Request) -> Option<How<'k>> {
        let is_text = self.around || request.kind.is_empty();
        (!is_text).then(|| request.how(self.kinds))
    }
}

impl<'de> DeserializeSeed<'de> for How<'_> {
    type Value = Body;
    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Body, D::Error> {
        Ok(match self {
            How::Kind(kind) => {
                let object = from.deserialize_option(Maybe(kind))?;
                object.map_or(Body::Nothing, |o| Body::Object(Arc::clone(kind), Box::new(o)))
            }
            How::Scale => Option::deserialize(from)?.map_or(Body::Nothing, Body::Scale),
            How::Quota => Option::deserialize(from)?.map_or(Body::Nothing, Body::Quota),
            How::Not => {
                IgnoredAny::deserialize(from)?;
                Body::Nothing
            }
        })
    }
}

/// An object, or null.
struct Maybe<'k>(&'k Kind);

impl<'de> Visitor<'de> for Maybe<'_> {
    type Value = Option<Object>;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a {}", self.0.kind)
    }
    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(None)
    }
    fn visit_none<E>(self) -> Result<Self::Value, E> {
        Ok(None)
    }
    fn visit_some<D: Deserializer<'de>>(self, from: D) -> Result<Self::Value, D::Error> {
        Reading::without_writes(self.0).deserialize(from).map(Some)
    }
}

impl How<'_> {
    /// Whether both read alike.
    fn is(self, other: How<'_>) -> bool {
        match (self, other) {
            (How::Kind(one), How::Kind(other)) => Arc::ptr_eq(one, other),
            _ => std::mem::discriminant(&self) == std::mem::discriminant(&other),
        }
    }

    fn understand(self, text: &RawValue) -> Body {
        let mut json = serde_json::Deserializer::from_str(text.get());
        self.deserialize(&mut json).unwrap_or_else(|error| {
            let rest = serde_json::from_str(text.get());
            Body::Wrong(Box::new(Wrong::of(&error, rest.unwrap_or_default())))
        })
    }
}

/// What can be told of an object that cannot be understood.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Rest<'t> {
    #[serde(borrow)]
    metadata: Option<&'t RawValue>,
    #[serde(borrow)]
    spec: Option<&'t RawValue>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Leaving {
    deletion_timestamp: Option<String>,
}

impl Wrong {
    fn of(error: &serde_json::Error, rest: Rest<'_>) -> Self {
        let leaving: Leaving = rest
            .metadata
            .and_then(|meta| serde_json::from_str(meta.get()).ok())
            .unwrap_or_default();
        Self {
            why: error.to_string(),
            deleting: leaving.deletion_timestamp.is_some(),
            spec: rest.spec.map(|spec| spec.get().into()),
        }
    }
}

impl Gvk<'_> {
    fn api_version(&self) -> String {
        match &*self.group {
            "" => self.version.to_string(),
            group => [group, "/", &self.version].concat(),
        }
    }
}

fn text<'de, A: MapAccess<'de>>(map: &mut A) -> Result<Text<'de>, A::Error> {
    Ok(map.next_value::<Option<Text<'_>>>()?.unwrap_or_default())
}

fn verb<E: de::Error>(text: &str) -> Result<Verb, E> {
    Ok(match text {
        "CREATE" => Verb::Create,
        "UPDATE" => Verb::Update,
        "DELETE" => Verb::Delete,
        "CONNECT" => Verb::Connect,
        other => {
            let known = &["CREATE", "UPDATE", "DELETE", "CONNECT"];
            return Err(E::unknown_variant(&other.chars().take(80).collect::<String>(), known));
        }
    })
}
