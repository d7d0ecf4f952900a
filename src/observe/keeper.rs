//! Keeps what reviews need to know of their cluster as it is, on every replica.

use super::{
    inventory::Named,
    objects::{Object, Topic},
    watch::{Sent, Update},
};
use crate::k8s::{
    context::{Context, ContextError},
    kinds::Kinds,
};

/// Takes in what was told of a kind, and what is gone by it. What cannot be read is told to `notice`.
pub(super) fn keep(
    context: &mut Context,
    kinds: &Kinds,
    topic: &Topic,
    update: Update<Object>,
    gone: &[Named],
    notice: &dyn Fn(&str),
) {
    gone.iter().for_each(|named| forget(context, topic, named));
    let Update::Objects(objects) = update else { return };
    for Sent { deleted, object, .. } in objects {
        let taken = object.and_then(|object| match deleted {
            true => {
                forget(context, topic, &Named::of(object.meta()));
                Ok(())
            }
            false => know(context, kinds, topic, object).map_err(|error| error.to_string()),
        });
        if let Err(why) = taken {
            notice(&why);
        }
    }
}

fn know(
    context: &mut Context,
    kinds: &Kinds,
    topic: &Topic,
    object: Object,
) -> Result<(), ContextError> {
    let text = |context: &mut Context, version: &str, kind: &str, text: &str| {
        context.see_as(kinds, version, kind, text).map(drop)
    };
    match (topic, object) {
        (_, Object::Kind(kind, object)) => {
            context.know(*object, &kind);
            Ok(())
        }
        (Topic::Namespaces, Object::Text(_, json)) => text(context, "v1", "Namespace", &json),
        (Topic::LimitRanges, Object::Text(_, json)) => text(context, "v1", "LimitRange", &json),
        (Topic::RuntimeClasses, Object::Text(_, json)) => {
            text(context, "node.k8s.io/v1", "RuntimeClass", &json)
        }
        (_, Object::Node(node)) => {
            context.know_node(node.metadata, node.spec);
            Ok(())
        }
        // Of pods and quotas reviews need nothing.
        _ => Ok(()),
    }
}

fn forget(context: &mut Context, topic: &Topic, named: &Named) {
    match topic {
        Topic::Kind(_) => context.forget(&named.uid),
        Topic::Namespaces => context.forget_namespace(&named.name),
        Topic::LimitRanges => context.forget_limit_range(&named.namespace, &named.name),
        Topic::RuntimeClasses => context.forget_runtime_class(&named.name),
        Topic::Nodes => context.forget_node(&named.name),
        Topic::Pods | Topic::Quotas => {}
    }
}
