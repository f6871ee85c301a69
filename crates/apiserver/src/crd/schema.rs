//! OpenAPI v3 schemas of custom resources, interpreted: pruning, defaults and validation. Composition (`allOf`, `anyOf`,
//! `oneOf`, `not`) only validates, as upstream's structural schemas demand. CEL rules (`x-kubernetes-validations`) are not
//! evaluated.

use serde_json::Value;

use crate::{json, status::Cause};

const PRESERVE: &str = "x-kubernetes-preserve-unknown-fields";

fn preserves(schema: &Value) -> bool {
    schema.get(PRESERVE) == Some(&Value::Bool(true))
}

fn embedded(schema: &Value) -> bool {
    schema.get("x-kubernetes-embedded-resource") == Some(&Value::Bool(true))
}

/// Removes the fields that the schema does not know. The root always keeps `apiVersion`, `kind` and `metadata`.
pub fn prune(schema: &Value, value: &mut Value, root: bool) {
    match value {
        Value::Object(map) => {
            let properties = schema.get("properties");
            let additional = schema.get("additionalProperties");
            let keep_all = preserves(schema) || additional == Some(&Value::Bool(true));
            map.retain(|key, value| {
                if (root || embedded(schema)) && ["apiVersion", "kind", "metadata"].contains(&key.as_str()) {
                    return true;
                }
                if let Some(property) = properties.and_then(|p| p.get(key)) {
                    prune(property, value, false);
                    return true;
                }
                if let Some(schema @ Value::Object(_)) = additional {
                    prune(schema, value, false);
                    return true;
                }
                keep_all
            });
        }
        Value::Array(list) => {
            if let Some(items) = schema.get("items") {
                list.iter_mut().for_each(|item| prune(items, item, false));
            }
        }
        _ => {}
    }
}

/// Fills in defaults, from the outside in, so that a default object gets the defaults of its own fields.
pub fn default(schema: &Value, value: &mut Value) {
    match value {
        Value::Object(map) => {
            for (key, property) in json::entries(schema, "/properties") {
                // An explicit null of a field that may not be null means "use the default".
                let nullable = property.get("nullable") == Some(&Value::Bool(true));
                let missing = map.get(key).is_none_or(|v| v.is_null() && !nullable);
                if missing && let Some(given) = property.get("default") {
                    map.insert(key.clone(), given.clone());
                }
                if let Some(value) = map.get_mut(key) {
                    default(property, value);
                }
            }
            if let Some(additional @ Value::Object(_)) = schema.get("additionalProperties") {
                let known = json::at(schema, "/properties");
                map.iter_mut()
                    .filter(|(key, _)| known.get(key).is_none())
                    .for_each(|(_, v)| default(additional, v));
            }
        }
        Value::Array(list) => {
            if let Some(items) = schema.get("items") {
                list.iter_mut().for_each(|item| default(items, item));
            }
        }
        _ => {}
    }
}

/// Everything in `value` that the schema forbids.
pub fn validate(schema: &Value, value: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    check(schema, value, "", &mut causes);
    causes
}

fn check(schema: &Value, value: &Value, path: &str, causes: &mut Vec<Cause>) {
    let field = || if path.is_empty() { "<nil>".to_owned() } else { path.to_owned() };
    if value.is_null() && schema.get("nullable") == Some(&Value::Bool(true)) {
        return;
    }
    if !has_type(schema, value) {
        let wanted = schema.get("type").and_then(Value::as_str).unwrap_or("integer or string");
        let found = type_name(value);
        let why = format!("{} in body must be of type {wanted}: \"{found}\"", field());
        causes.push(Cause {
            field: field(),
            reason: "FieldValueTypeInvalid",
            message: format!("Invalid value: \"{found}\": {why}"),
        });
        return;
    }
    if let Some(allowed) = schema.get("enum").and_then(Value::as_array)
        && !allowed.contains(value)
    {
        let allowed: Vec<_> = allowed.iter().map(Value::to_string).collect();
        causes.push(Cause::unsupported(field(), value, &allowed));
    }
    match value {
        Value::String(text) => check_text(schema, text, path, causes),
        Value::Number(number) => check_number(schema, number.as_f64().unwrap_or(0.0), value, path, causes),
        Value::Array(list) => check_list(schema, list, value, path, causes),
        Value::Object(_) => check_object(schema, value, path, causes),
        _ => {}
    }
    check_composition(schema, value, path, causes);
}

fn check_composition(schema: &Value, value: &Value, path: &str, causes: &mut Vec<Cause>) {
    let passes = |schema: &Value| {
        let mut inner = Vec::new();
        check(schema, value, path, &mut inner);
        inner.is_empty()
    };
    for all in json::list(schema, "/allOf") {
        check(all, value, path, causes);
    }
    let any = json::list(schema, "/anyOf");
    if !any.is_empty() && !any.iter().any(passes) {
        causes.push(Cause::invalid(
            path,
            value,
            format!("{path} in body must validate at least one schema (anyOf)"),
        ));
    }
    let one = json::list(schema, "/oneOf");
    if !one.is_empty() && one.iter().filter(|s| passes(s)).count() != 1 {
        causes.push(Cause::invalid(
            path,
            value,
            format!("{path} in body must validate one and only one schema (oneOf)"),
        ));
    }
    if let Some(not) = schema.get("not")
        && passes(not)
    {
        causes.push(Cause::invalid(
            path,
            value,
            format!("{path} in body must not validate the schema (not)"),
        ));
    }
}

fn check_text(schema: &Value, text: &str, path: &str, causes: &mut Vec<Cause>) {
    let length = i64::try_from(text.chars().count()).unwrap_or(i64::MAX);
    let value = Value::from(text);
    if let Some(limit) = json::number(schema, "/maxLength").filter(|limit| length > *limit) {
        let message = format!("Too long: may not be more than {limit} bytes");
        causes.push(Cause {
            field: path.into(),
            reason: "FieldValueTooLong",
            message,
        });
    }
    if let Some(limit) = json::number(schema, "/minLength").filter(|limit| length < *limit) {
        causes.push(Cause::invalid(
            path,
            &value,
            format!("{path} in body should be at least {limit} chars long"),
        ));
    }
    if let Some(pattern) = schema.get("pattern").and_then(Value::as_str)
        && let Ok(expression) = regex::Regex::new(pattern)
        && !expression.is_match(text)
    {
        causes.push(Cause::invalid(path, &value, format!("{path} in body should match '{pattern}'")));
    }
    let format = json::text(schema, "/format");
    let valid = match format {
        "ipv4" => text.parse::<std::net::Ipv4Addr>().is_ok(),
        "ipv6" => text.parse::<std::net::Ipv6Addr>().is_ok(),
        "ip" => text.parse::<std::net::IpAddr>().is_ok(),
        "cidr" => text.parse::<ipnet::IpNet>().is_ok(),
        "date-time" => text.parse::<jiff::Timestamp>().is_ok(),
        "uuid" => text.parse::<uuid::Uuid>().is_ok(),
        _ => true,
    };
    if !valid {
        causes.push(Cause::invalid(
            path,
            &value,
            format!("{path} in body must be of type {format}: \"{text}\""),
        ));
    }
}

fn check_number(schema: &Value, number: f64, value: &Value, path: &str, causes: &mut Vec<Cause>) {
    let limit = |name: &str| schema.get(name).and_then(Value::as_f64);
    let exclusive = |name: &str| schema.get(name) == Some(&Value::Bool(true));
    if let Some(minimum) = limit("minimum") {
        let strict = exclusive("exclusiveMinimum");
        if number < minimum || (strict && number <= minimum) {
            let relation = if strict { "greater than" } else { "greater than or equal to" };
            causes.push(Cause::invalid(
                path,
                value,
                format!("{path} in body should be {relation} {minimum}"),
            ));
        }
    }
    if let Some(maximum) = limit("maximum") {
        let strict = exclusive("exclusiveMaximum");
        if number > maximum || (strict && number >= maximum) {
            let relation = if strict { "less than" } else { "less than or equal to" };
            causes.push(Cause::invalid(
                path,
                value,
                format!("{path} in body should be {relation} {maximum}"),
            ));
        }
    }
    if let Some(step) = limit("multipleOf").filter(|step| *step != 0.0 && number % step != 0.0) {
        causes.push(Cause::invalid(
            path,
            value,
            format!("{path} in body should be a multiple of {step}"),
        ));
    }
}

fn check_list(schema: &Value, list: &[Value], value: &Value, path: &str, causes: &mut Vec<Cause>) {
    let length = i64::try_from(list.len()).unwrap_or(i64::MAX);
    if let Some(limit) = json::number(schema, "/maxItems").filter(|limit| length > *limit) {
        let message = format!("Too many: {length}: must have at most {limit} items");
        causes.push(Cause {
            field: path.into(),
            reason: "FieldValueTooMany",
            message,
        });
    }
    if let Some(limit) = json::number(schema, "/minItems").filter(|limit| length < *limit) {
        causes.push(Cause::invalid(
            path,
            value,
            format!("{path} in body should have at least {limit} items"),
        ));
    }
    let keys: Vec<_> = json::list(schema, "/x-kubernetes-list-map-keys")
        .iter()
        .filter_map(Value::as_str)
        .collect();
    let unique = json::flag(schema, "/uniqueItems") || json::text(schema, "/x-kubernetes-list-type") == "set";
    for (index, item) in list.iter().enumerate() {
        let same = |other: &Value| match keys.is_empty() {
            true => unique && other == item,
            false => keys.iter().all(|key| other.get(key) == item.get(key)),
        };
        if list[..index].iter().any(same) {
            causes.push(Cause::duplicate(format!("{path}[{index}]"), item));
        }
        if let Some(items) = schema.get("items") {
            check(items, item, &format!("{path}[{index}]"), causes);
        }
    }
}

fn check_object(schema: &Value, value: &Value, path: &str, causes: &mut Vec<Cause>) {
    let child = |key: &str| if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") };
    for required in json::list(schema, "/required").iter().filter_map(Value::as_str) {
        if value.get(required).is_none() {
            causes.push(Cause::required(child(required), ""));
        }
    }
    let count = i64::try_from(json::entries(value, "").count()).unwrap_or(i64::MAX);
    if let Some(limit) = json::number(schema, "/maxProperties").filter(|limit| count > *limit) {
        let message = format!("Too many: {count}: must have at most {limit} items");
        causes.push(Cause {
            field: path.into(),
            reason: "FieldValueTooMany",
            message,
        });
    }
    if let Some(limit) = json::number(schema, "/minProperties").filter(|limit| count < *limit) {
        causes.push(Cause::invalid(
            path,
            value,
            format!("{path} in body should have at least {limit} properties"),
        ));
    }
    for (key, item) in json::entries(value, "") {
        let known = schema.get("properties").and_then(|p| p.get(key));
        let schema = known.or_else(|| schema.get("additionalProperties").filter(|a| a.is_object()));
        if let Some(schema) = schema {
            check(schema, item, &child(key), causes);
        }
    }
}

fn has_type(schema: &Value, value: &Value) -> bool {
    if schema.get("x-kubernetes-int-or-string") == Some(&Value::Bool(true)) {
        return value.is_string() || value.as_i64().is_some();
    }
    match schema.get("type").and_then(Value::as_str) {
        Some("object") => value.is_object(),
        Some("array") => value.is_array(),
        Some("string") => value.is_string(),
        Some("boolean") => value.is_boolean(),
        Some("number") => value.is_number(),
        Some("integer") => value.as_i64().is_some() || value.as_f64().is_some_and(|n| n.fract() == 0.0),
        _ => true,
    }
}

/// The JSON type of a value, as messages name it.
pub fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(n) if n.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}
