//! The schema of usage events is the one that is committed, and holds for them and for nothing else.

use super::take;
use crate::histories::worlds;
use bizrq::{
    domain::metered::Metered,
    usage::event::{batch, schema},
};
use serde_json::Value;
use std::{fs, path::Path};

#[test]
fn the_schema_is_the_committed_one_and_events_obey_it() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("schemas/usage/v1/usage.metered.json");
    let text = format!("{:#}\n", schema());
    if std::env::var_os("BIZRQ_BLESS").is_some() {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, &text).unwrap();
    }
    let committed = fs::read_to_string(&path).unwrap_or_default();
    assert!(committed == text, "{} is stale; run `make schemas`", path.display());
    let validator = jsonschema::validator_for(&schema()).unwrap();
    let mut fold = Metered::default();
    let since = fold.mark();
    let world = worlds(55, 1).next().unwrap();
    world.events.iter().for_each(|event| take(&mut fold, event));
    let events = batch("BIZRQ", &fold, since);
    assert!(events.len() > 10);
    for event in events {
        let good = serde_json::to_value(&event).unwrap();
        let errors: Vec<_> = validator.iter_errors(&good).map(|e| e.to_string()).collect();
        assert!(errors.is_empty(), "{good}: {errors:?}");
        for field in
            ["/id", "/type", "/data/exact", "/data/from", "/data/since/until", "/data/position"]
        {
            let mut bad = good.clone();
            *bad.pointer_mut(field).unwrap() = "x".into();
            assert!(!validator.is_valid(&bad), "{field}");
        }
        let mut bad = good;
        bad["data"].as_object_mut().unwrap().remove("group");
        assert!(!validator.is_valid(&bad));
        assert!(serde_json::from_value::<bizrq::usage::event::UsageMetered>(bad).is_err());
    }
    assert!(!validator.is_valid(&Value::Null));
}
