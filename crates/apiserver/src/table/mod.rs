//! Objects as rows for people: the `Table` answers behind `kubectl get`. Built-in kinds describe their columns in
//! [`native`], custom ones in their definition by [`path`] expressions. Columns of priority 1 show with `-o wide`.

pub mod native;
pub mod path;

use serde_json::{Value, json};

use crate::{
    json,
    kind::{Kind, Source},
};

/// One column.
#[derive(Debug, Clone, Copy)]
pub struct Column {
    /// Heading.
    pub name: &'static str,
    /// 0, or 1 for wide output only.
    pub priority: i32,
}

/// A column that is always shown.
pub const fn column(name: &'static str) -> Column {
    Column { name, priority: 0 }
}

/// A column of wide output.
pub const fn wide(name: &'static str) -> Column {
    Column { name, priority: 1 }
}

/// How much of the object each row carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Include {
    /// Nothing.
    None,
    /// Its metadata.
    Metadata,
    /// All of it.
    Object,
}

/// The table of some objects; `metadata` is that of the list.
pub fn table<'a>(kind: &Kind, objects: impl Iterator<Item = &'a Value>, include: Include, metadata: Value) -> Value {
    let rows: Vec<Value> = objects
        .map(|object| {
            let mut row = json!({ "cells": cells(kind, object) });
            match include {
                Include::None => {}
                Include::Metadata => row["object"] = partial(object),
                Include::Object => row["object"] = object.clone(),
            }
            row
        })
        .collect();
    json!({
        "kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": metadata,
        "columnDefinitions": definitions(kind), "rows": rows,
    })
}

/// An object reduced to its metadata.
pub fn partial(object: &Value) -> Value {
    json!({ "kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": object["metadata"] })
}

fn definitions(kind: &Kind) -> Vec<Value> {
    let definition = |name: &str, kind: &str, format: &str, priority: i64| json!({ "name": name, "type": kind, "format": format, "priority": priority, "description": "" });
    let mut all = vec![definition("Name", "string", "name", 0)];
    match &kind.source {
        // An event is named by what it says, not by its name.
        Source::Native(native) if native.kind == "Event" => all.clear(),
        _ => {}
    }
    match &kind.source {
        Source::Native(native) => {
            all.extend(native.columns.iter().map(|c| definition(c.name, "string", "", c.priority.into())));
        }
        Source::Custom(custom) if custom.columns.is_empty() => all.push(definition("Age", "date", "", 0)),
        Source::Custom(custom) => all.extend(custom.columns.iter().map(|c| {
            let kind = json::text(c, "/type");
            definition(
                json::text(c, "/name"),
                kind,
                json::text(c, "/format"),
                json::number(c, "/priority").unwrap_or(0),
            )
        })),
    }
    all
}

fn cells(kind: &Kind, object: &Value) -> Vec<Value> {
    let mut cells = vec![json!(json::name(object))];
    match &kind.source {
        Source::Native(native) => {
            if native.kind == "Event" {
                cells.clear();
            }
            let mut row = (native.row)(object);
            row.resize(native.columns.len(), Value::Null);
            for (column, cell) in native.columns.iter().zip(row) {
                cells.push(if column.name == "Age" {
                    json!(age(object, "/metadata/creationTimestamp"))
                } else {
                    cell
                });
            }
        }
        Source::Custom(custom) if custom.columns.is_empty() => cells.push(json!(age(object, "/metadata/creationTimestamp"))),
        Source::Custom(custom) => cells.extend(custom.columns.iter().map(|column| {
            let found = path::first(object, json::text(column, "/jsonPath"));
            match (json::text(column, "/type"), found) {
                ("date", Some(Value::String(when))) => json!(since(&when)),
                ("string", Some(Value::String(text))) => json!(text),
                ("string", Some(other)) => json!(other.to_string()),
                (_, Some(other)) => other,
                (_, None) => Value::Null,
            }
        })),
    }
    cells
}

/// How long ago the time at `path` was.
pub fn age(object: &Value, path: &str) -> String {
    since(json::text(object, path))
}

fn since(when: &str) -> String {
    let Ok(when) = when.parse::<jiff::Timestamp>() else {
        return "<unknown>".into();
    };
    duration(jiff::Timestamp::now().duration_since(when).as_secs())
}

/// A duration in the two most telling units, as kubectl prints it.
pub fn duration(seconds: i64) -> String {
    let (minutes, hours) = (seconds / 60, seconds / 3600);
    let two = |large: i64, large_unit: &str, small: i64, small_unit: &str| match small {
        0 => format!("{large}{large_unit}"),
        _ => format!("{large}{large_unit}{small}{small_unit}"),
    };
    match seconds {
        ..0 => "0s".into(),
        0..120 => format!("{seconds}s"),
        120..600 => two(minutes, "m", seconds % 60, "s"),
        600..10_800 => format!("{minutes}m"),
        10_800..28_800 => two(hours, "h", minutes % 60, "m"),
        28_800..172_800 => format!("{hours}h"),
        172_800..691_200 => two(hours / 24, "d", hours % 24, "h"),
        691_200..63_072_000 => format!("{}d", hours / 24),
        _ => two(hours / 24 / 365, "y", hours / 24 % 365, "d"),
    }
}
