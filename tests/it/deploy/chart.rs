//! The chart, rendered without Helm: of Go's templates exactly what the chart uses, and an error for anything else.
//!
//! `.Values.a.b`, `.Release.Namespace`, `.`; `if`, `if not`, `else`, `end`, `range`; `quote`, `toYaml … | nindent N`;
//! `{{-`, which takes the blanks before it; and what it asks of the cluster: the label of a namespace, the version.

use serde_json::Value;
use std::{collections::BTreeMap, fs, path::Path};

/// The chart with its values.
pub(super) struct Chart {
    values: Value,
    templates: Vec<String>,
    /// The namespaces of the cluster, and whether they are labelled; none where it is only rendered.
    namespaces: BTreeMap<&'static str, bool>,
    /// The second number of its version.
    minor: u32,
}

/// The chart finds a namespace …
const FOUND: &str = "$namespace";
/// … by the name that is at hand, …
const LOOKUP: &str = r#"$namespace := lookup "v1" "Namespace" "" ."#;
/// … and its label.
const LABELLED: &str = r#"(hasKey (default dict $namespace.metadata.labels) "bizrq.io/excluded")"#;
/// What it asks of the cluster's version: the second number is at least this.
fn at_least(condition: &str) -> Option<u32> {
    let minor = condition.strip_prefix(r#"semverCompare ">=1."#)?;
    minor.strip_suffix(r#"-0" .Capabilities.KubeVersion.Version"#)?.parse().ok()
}

/// A piece of a template.
#[derive(Debug)]
enum Piece<'t> {
    Text(&'t str),
    Action(&'t str),
}

/// Every document of a text.
pub(super) fn documents(text: &str) -> Vec<Value> {
    let documents = text.split("---\n").filter(|document| !document.trim().is_empty());
    let read = |document: &str| {
        serde_saphyr::from_str::<Value>(document).unwrap_or_else(|e| panic!("{e}\n{document}"))
    };
    documents.map(read).filter(|object| !object.is_null()).collect()
}

impl Chart {
    pub(super) fn read() -> Self {
        let chart = Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy/chart");
        let values = fs::read_to_string(chart.join("values.yaml")).unwrap();
        // The order in which things are applied.
        let names = [
            "namespace",
            "rbac",
            "service",
            "certificate",
            "statefulset",
            "monitoring",
            "webhooks",
        ];
        let mut found = fs::read_dir(chart.join("templates")).unwrap().count();
        let templates = names.map(|name| {
            found -= 1;
            fs::read_to_string(chart.join(format!("templates/{name}.yaml"))).unwrap()
        });
        assert_eq!(found, 0, "a template is not rendered");
        let (values, namespaces) = (serde_saphyr::from_str(&values).unwrap(), BTreeMap::new());
        Self { values, templates: templates.into(), namespaces, minor: 20 }
    }

    /// With another value at `path`, which must be there already.
    pub(super) fn with(mut self, path: &str, value: Value) -> Self {
        let place = self.values.pointer_mut(&format!("/{}", path.replace('.', "/")));
        *place.unwrap_or_else(|| panic!("values.yaml has no {path}")) = value;
        self
    }

    /// For a cluster of this version, that has a namespace, labelled or not.
    pub(super) fn on(mut self, minor: u32, namespace: &'static str, is_labelled: bool) -> Self {
        self.minor = minor;
        self.namespaces.insert(namespace, is_labelled);
        self
    }

    /// All documents, in the namespace `bizrq`.
    pub(super) fn render(&self) -> String {
        let mut out = String::new();
        for template in &self.templates {
            let pieces = pieces(template);
            let mut text = String::new();
            let mut rest = pieces.as_slice();
            self.block(&mut rest, &Value::Null, true, &mut text);
            assert!(rest.is_empty(), "an `end` too many");
            let text = text.trim();
            if !text.is_empty() {
                out.push_str("---\n");
                out.push_str(text);
                out.push('\n');
            }
        }
        out
    }

    /// Renders up to the `else` or `end` that closes this block; gives that word.
    fn block<'t>(
        &self,
        rest: &mut &[Piece<'t>],
        dot: &Value,
        shown: bool,
        out: &mut String,
    ) -> &'t str {
        while let Some((piece, behind)) = rest.split_first() {
            *rest = behind;
            match piece {
                Piece::Text(text) if shown => out.push_str(text),
                Piece::Text(_) => {}
                Piece::Action(word @ ("else" | "end")) => return word,
                Piece::Action(action) => self.action(action, rest, dot, shown, out),
            }
        }
        ""
    }

    fn action(
        &self,
        action: &str,
        rest: &mut &[Piece<'_>],
        dot: &Value,
        shown: bool,
        out: &mut String,
    ) {
        if let Some(condition) = action.strip_prefix("if ") {
            let holds = match condition.strip_prefix("not ") {
                Some(path) => !is_true(&self.value(path, dot)),
                None => is_true(&self.value(condition, dot)),
            };
            if self.block(rest, dot, shown && holds, out) == "else" {
                assert_eq!(self.block(rest, dot, shown && !holds, out), "end");
            }
        } else if let Some(list) = action.strip_prefix("range ") {
            let items = self.value(list, dot).as_array().cloned().unwrap_or_default();
            let begin = *rest;
            for item in &items {
                *rest = begin;
                self.block(rest, item, shown, out);
            }
            if items.is_empty() {
                self.block(rest, dot, false, out);
            }
        } else if let Some(why) = action.strip_prefix("fail ").filter(|_| shown) {
            panic!("{}: {why}", dot.as_str().unwrap_or_default());
        } else if shown && action != LOOKUP {
            out.push_str(&self.written(action, dot));
        }
    }

    /// What a pipeline writes.
    fn written(&self, action: &str, dot: &Value) -> String {
        let (first, pipe) = action.split_once(" | ").unwrap_or((action, ""));
        if let Some(path) = first.strip_prefix("toYaml ") {
            let indent = pipe.strip_prefix("nindent ").unwrap_or_else(|| panic!("{action}"));
            let blanks = " ".repeat(indent.parse().unwrap());
            let yaml = yaml(&self.value(path, dot));
            return yaml.lines().map(|line| format!("\n{blanks}{line}")).collect();
        }
        let value = self.value(first, dot);
        let text = match &value {
            Value::String(text) => text.clone(),
            Value::Number(number) => number.to_string(),
            Value::Bool(bool) => bool.to_string(),
            other => panic!("{action} writes {other}"),
        };
        match pipe {
            "" => text,
            "quote" => format!("{text:?}"),
            other => panic!("the chart's renderer knows no `{other}`"),
        }
    }

    fn value(&self, path: &str, dot: &Value) -> Value {
        if path == "." {
            return dot.clone();
        }
        if path == ".Release.Namespace" {
            return "bizrq".into();
        }
        let namespace = || self.namespaces.get(dot.as_str().unwrap());
        match path {
            FOUND => return namespace().is_some().into(),
            LABELLED => return (namespace() == Some(&true)).into(),
            _ => {}
        }
        if let Some(minor) = at_least(path) {
            return (self.minor >= minor).into();
        }
        let inner = path.strip_prefix(".Values.");
        let inner = inner.unwrap_or_else(|| panic!("the chart's renderer knows no `{path}`"));
        let found = self.values.pointer(&format!("/{}", inner.replace('.', "/")));
        found.unwrap_or_else(|| panic!("values.yaml has no {inner}")).clone()
    }
}

/// As Go's templates see it.
fn is_true(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Bool(bool) => *bool,
        Value::Number(number) => number.as_i64() != Some(0),
        Value::String(text) => !text.is_empty(),
        Value::Array(list) => !list.is_empty(),
        Value::Object(map) => !map.is_empty(),
    }
}

fn pieces(template: &str) -> Vec<Piece<'_>> {
    let mut pieces = Vec::new();
    let mut rest = template;
    while let Some((text, behind)) = rest.split_once("{{") {
        let (action, after) = behind.split_once("}}").expect("an action that is not closed");
        assert!(!action.ends_with('-'), "the chart's renderer knows no `-}}}}`");
        let (text, action) = match action.strip_prefix('-') {
            Some(action) => (text.trim_end(), action),
            None => (text, action),
        };
        pieces.push(Piece::Text(text));
        pieces.push(Piece::Action(action.trim()));
        rest = after;
    }
    pieces.push(Piece::Text(rest));
    pieces
}

/// A value as lines of YAML.
fn yaml(value: &Value) -> String {
    match value {
        Value::Object(map) if !map.is_empty() => {
            let mut keys: Vec<_> = map.keys().collect();
            keys.sort();
            let line = |key: &&String| match &map[*key] {
                Value::Object(inner) if !inner.is_empty() => {
                    let lines = yaml(&map[*key]);
                    let lines: String = lines.lines().map(|line| format!("\n  {line}")).collect();
                    format!("{key}:{lines}")
                }
                simple => format!("{key}: {simple}"),
            };
            keys.iter().map(line).collect::<Vec<_>>().join("\n")
        }
        // JSON is YAML.
        simple => simple.to_string(),
    }
}
