//! As much of JSON Schema as the description uses, stricter: an object has no other fields than those that are described.

use serde_json::{Map, Value};

/// What in a value is not as the schema says, each with its place.
pub(super) fn faults(root: &Value, schema: &Value, value: &Value) -> Vec<String> {
    let mut faults = Vec::new();
    check(root, schema, value, "", &mut faults);
    faults
}

fn check(root: &Value, schema: &Value, value: &Value, at: &str, faults: &mut Vec<String>) {
    if let Some(name) = schema.get("$ref") {
        let place = name.as_str().unwrap().strip_prefix('#').unwrap();
        return check(root, root.pointer(place).unwrap(), value, at, faults);
    }
    if let Some(any) = schema.get("oneOf") {
        let fitting = any.as_array().unwrap().iter().filter(|one| {
            let mut own = Vec::new();
            check(root, one, value, at, &mut own);
            own.is_empty()
        });
        if fitting.count() != 1 {
            faults.push(format!("{at}: {value} is not one of {any}"));
        }
        return;
    }
    let kinds = match &schema["type"] {
        Value::String(kind) => vec![kind.as_str()],
        Value::Array(kinds) => kinds.iter().map(|kind| kind.as_str().unwrap()).collect(),
        other => panic!("{at}: a schema without a type: {other}"),
    };
    let kind = match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_u64() || number.is_i64() => "integer",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    let fits = kinds.contains(&kind) || kind == "integer" && kinds.contains(&"number");
    if !fits {
        return faults.push(format!("{at}: {value} is no {kinds:?}"));
    }
    let too_small =
        |number: f64| schema.get("minimum").is_some_and(|least| Some(number) < least.as_f64());
    if value.as_f64().is_some_and(too_small) {
        faults.push(format!("{at}: {value} is too small"));
    }
    if schema.get("enum").is_some_and(|values| !values.as_array().unwrap().contains(value)) {
        faults.push(format!("{at}: {value} is not in {}", schema["enum"]));
    }
    match value {
        Value::Array(items) => {
            for (n, item) in items.iter().enumerate() {
                check(root, &schema["items"], item, &format!("{at}/{n}"), faults);
            }
        }
        Value::Object(fields) => check_fields(root, schema, fields, at, faults),
        _ => {}
    }
}

fn check_fields(
    root: &Value,
    schema: &Value,
    fields: &Map<String, Value>,
    at: &str,
    faults: &mut Vec<String>,
) {
    for required in schema["required"].as_array().into_iter().flatten() {
        if !fields.contains_key(required.as_str().unwrap()) {
            faults.push(format!("{at}: {required} is missing"));
        }
    }
    for (name, value) in fields {
        let at = format!("{at}/{name}");
        let own = schema.get("properties").and_then(|known| known.get(name));
        match own.or_else(|| schema.get("additionalProperties").filter(|more| more.is_object())) {
            Some(schema) => check(root, schema, value, &at, faults),
            None => faults.push(format!("{at}: not described")),
        }
    }
}
