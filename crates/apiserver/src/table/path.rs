//! The subset of JSONPath that printer columns use: `.spec.x`, `.list[0]`, `.list[*].x`, `['key']` and
//! `[?(@.type=="Ready")].status`. An expression outside the subset selects nothing.

use serde_json::Value;

/// The first value the expression selects.
pub fn first(value: &Value, expression: &str) -> Option<Value> {
    let expression = expression
        .trim()
        .trim_start_matches('{')
        .trim_end_matches('}')
        .trim_start_matches('$');
    select(vec![value], expression).into_iter().next().cloned()
}

fn select<'a>(mut values: Vec<&'a Value>, mut rest: &str) -> Vec<&'a Value> {
    while !rest.is_empty() && !values.is_empty() {
        if let Some(bracket) = rest.strip_prefix('[') {
            let Some(end) = closing(bracket) else { return Vec::new() };
            let inside = &bracket[..end];
            values = values.into_iter().flat_map(|value| subscript(value, inside)).collect();
            rest = &bracket[end + 1..];
        } else {
            rest = rest.strip_prefix('.').unwrap_or(rest);
            let (name, after) = member(rest);
            if name.is_empty() {
                return if after.is_empty() { values } else { select(values, after) };
            }
            values = values.into_iter().filter_map(|value| value.get(&name)).collect();
            rest = after;
        }
    }
    values
}

/// A member name up to the next `.` or `[`; a backslash takes the next character literally.
fn member(text: &str) -> (String, &str) {
    let mut name = String::new();
    let mut characters = text.char_indices();
    while let Some((index, character)) = characters.next() {
        match character {
            '.' | '[' => return (name, &text[index..]),
            '\\' => name.extend(characters.next().map(|(_, c)| c)),
            other => name.push(other),
        }
    }
    (name, "")
}

/// The position of the `]` that ends a subscript, outside quotes.
fn closing(text: &str) -> Option<usize> {
    let mut quote = None;
    for (index, character) in text.char_indices() {
        match (quote, character) {
            (Some(open), c) if c == open => quote = None,
            (None, '\'' | '"') => quote = Some(character),
            (None, ']') => return Some(index),
            _ => {}
        }
    }
    None
}

fn subscript<'a>(value: &'a Value, inside: &str) -> Vec<&'a Value> {
    let items = || value.as_array().into_iter().flatten();
    if inside == "*" {
        return items().chain(value.as_object().into_iter().flat_map(|map| map.values())).collect();
    }
    if let Some(condition) = inside.strip_prefix("?(").and_then(|c| c.strip_suffix(')')) {
        let Some((left, right)) = condition.split_once("==") else {
            return Vec::new();
        };
        let left = left.trim().trim_start_matches('@');
        let right = right.trim().trim_matches(['"', '\'']);
        return items()
            .filter(|item| first(item, left).is_some_and(|value| is_written(&value, right)))
            .collect();
    }
    if let Ok(index) = inside.parse::<i64>() {
        let Some(list) = value.as_array() else { return Vec::new() };
        let length = i64::try_from(list.len()).unwrap_or(i64::MAX);
        let index = if index < 0 { length + index } else { index };
        return usize::try_from(index).ok().and_then(|i| list.get(i)).into_iter().collect();
    }
    value.get(inside.trim_matches(['"', '\''])).into_iter().collect()
}

/// Whether a value reads like this text.
fn is_written(value: &Value, text: &str) -> bool {
    match value {
        Value::String(value) => value == text,
        other => serde_json::from_str::<Value>(text).is_ok_and(|value| value == *other),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_expressions_of_printer_columns() {
        let object = json!({ "spec": { "a": 1, "x.y": "dotted", "list": [{ "n": "p" }, { "n": "q" }] },
            "status": { "conditions": [{ "type": "A", "status": "no" }, { "type": "Ready", "status": "yes" }] } });
        for (expression, expected) in [
            (".spec.a", json!(1)),
            (".spec.list[1].n", json!("q")),
            (".spec.list[-1].n", json!("q")),
            (".spec.list[*].n", json!("p")),
            (".spec['x.y']", json!("dotted")),
            (".spec.x\\.y", json!("dotted")),
            (".status.conditions[?(@.type==\"Ready\")].status", json!("yes")),
        ] {
            assert_eq!(first(&object, expression), Some(expected), "{expression}");
        }
        assert_eq!(first(&object, ".spec.none"), None);
        assert_eq!(first(&object, ".spec[oops"), None);
    }
}
