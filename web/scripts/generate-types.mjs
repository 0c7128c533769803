// Writes src/ahp/types.gen.ts from the sources of the crate `ahp-types`, which is the published protocol in Rust.
//
//   node scripts/generate-types.mjs           writes the file
//   node scripts/generate-types.mjs --check   fails if the file is out of date
//
// The crate is itself generated, so its shape is regular: structs with named fields, enums of names, and enums that are
// tagged unions. Anything else is an error here, so that a new shape cannot be translated wrongly in silence.

import { execFileSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const here = dirname(fileURLToPath(import.meta.url));
const output = join(here, "../src/ahp/types.gen.ts");
const FILES = ["state.rs", "actions.rs", "commands.rs", "notifications.rs", "errors.rs"];

const { folder, version } = crateSources();
const items = FILES.flatMap((file) => parse(readFileSync(join(folder, file), "utf8"), file));
const text = render(items, version);
if (process.argv.includes("--check")) {
  if (readFileSync(output, "utf8") !== text) {
    console.error("src/ahp/types.gen.ts is out of date; run `npm run types` and commit it");
    process.exit(1);
  }
} else {
  writeFileSync(output, text);
}

function crateSources() {
  const cwd = join(here, "../..");
  const options = { cwd, encoding: "utf8", maxBuffer: 1 << 28 };
  const metadata = JSON.parse(execFileSync("cargo", ["metadata", "--format-version", "1", "--locked"], options));
  // Older versions are in the workspace for its compatibility tests.
  const found = metadata.packages.filter((entry) => entry.name === "ahp-types");
  found.sort((a, b) => b.version.localeCompare(a.version, "en", { numeric: true }));
  return { folder: join(dirname(found[0].manifest_path), "src"), version: found[0].version };
}

/** Splits a source file into its public items, with the attributes that serde reads. */
function parse(source, file) {
  const lines = source.split("\n");
  const items = [];
  let attributes = "";
  for (let at = 0; at < lines.length; at += 1) {
    const line = lines[at].trim();
    if (line.startsWith("#[")) {
      let attribute = line;
      while (!attribute.endsWith("]")) attribute += ` ${lines[(at += 1)].trim()}`;
      attributes += `${attribute}\n`;
      continue;
    }
    const bits = /^pub struct (\w+)\(pub u32\);$/.exec(line);
    const record = /^pub struct (\w+) \{(\})?$/.exec(line);
    const choice = /^pub enum (\w+) \{$/.exec(line);
    if (bits) {
      items.push({ kind: "bits", name: bits[1], values: bitValues(source, bits[1]) });
    } else if (record) {
      const end = record[2] ? at : blockEnd(lines, at);
      items.push({ kind: "record", name: record[1], fields: fields(lines.slice(at + 1, end), "pub ", attributes) });
      at = end;
    } else if (choice) {
      const end = blockEnd(lines, at);
      items.push(parseEnum(choice[1], lines.slice(at + 1, end), attributes, source, file));
      at = end;
    }
    if (line !== "" && !line.startsWith("//")) attributes = "";
  }
  return items;
}

function blockEnd(lines, start) {
  const end = lines.indexOf("}", start);
  if (end < 0) throw new Error(`no end of the block at line ${start + 1}`);
  return end;
}

function bitValues(source, name) {
  const pattern = new RegExp(`pub const (\\w+): ${name} = ${name}\\((\\d+)\\);`, "g");
  return [...source.matchAll(pattern)].map((match) => [match[1], Number(match[2])]);
}

function fields(lines, prefix, owner) {
  const camel = owner.includes('rename_all = "camelCase"');
  const found = [];
  let attributes = "";
  for (let at = 0; at < lines.length; at += 1) {
    let line = lines[at].trim();
    if (line === "" || line.startsWith("//")) continue;
    if (line.startsWith("#[")) {
      while (!line.endsWith("]")) line += ` ${lines[(at += 1)].trim()}`;
      attributes += line;
      continue;
    }
    while (!line.endsWith(",")) line += ` ${lines[(at += 1)].trim()}`;
    const match = new RegExp(`^${prefix}(?:r#)?(\\w+): (.+),$`).exec(line);
    if (!match) throw new Error(`not a field: ${line}`);
    const renamed = /rename = "([^"]+)"/.exec(attributes)?.[1];
    const optional = attributes.includes("skip_serializing_if");
    found.push({ name: renamed ?? (camel ? camelCase(match[1]) : match[1]), type: match[2], optional });
    attributes = "";
  }
  return found;
}

function parseEnum(name, lines, attributes, source, file) {
  const tag = /tag = "(\w+)"/.exec(attributes)?.[1];
  const untagged = attributes.includes("#[serde(untagged)]");
  const written = serializedNames(source, name);
  const variants = [];
  let own = "";
  for (let at = 0; at < lines.length; at += 1) {
    const line = lines[at].trim();
    if (line === "" || line.startsWith("//")) continue;
    if (line.startsWith("#[")) {
      own += line;
      continue;
    }
    const wire = /rename = "([^"]+)"/.exec(own)?.[1];
    const unknown = own.includes("untagged");
    own = "";
    const unit = /^(\w+)(?: = \d+)?,$/.exec(line);
    const wrapped = /^(\w+)\((.+)\),$/.exec(line);
    const inline = /^(\w+) \{ (.+) \},$/.exec(line);
    const open = /^(\w+) \{$/.exec(line);
    if (unknown || (wrapped && wrapped[1] === "Unknown")) continue;
    if (unit) {
      variants.push({ wire: wire ?? written.get(unit[1]) ?? fail(`${file}: ${name}::${unit[1]}`), fields: [] });
    } else if (wrapped) {
      variants.push({ wire, type: wrapped[2] });
    } else if (inline) {
      variants.push({ wire, fields: fields(inline[2].split(", ").map((field) => `${field},`), "", "") });
    } else if (open) {
      const end = lines.findIndex((other, index) => index > at && other.trim() === "},");
      variants.push({ wire, fields: fields(lines.slice(at + 1, end), "", "") });
      at = end;
    } else {
      fail(`${file}: ${name}: ${line}`);
    }
  }
  if (tag || untagged) return { kind: "union", name, tag, variants };
  return { kind: "names", name, values: variants.map((variant) => variant.wire) };
}

function serializedNames(source, name) {
  const start = source.indexOf(`impl serde::Serialize for ${name} {`);
  if (start < 0) return new Map();
  const body = source.slice(start, source.indexOf("\n}\n", start));
  const pattern = /Self::(\w+) => (?:\{\s*)?serializer\.serialize_str\("([^"]+)"\)/g;
  return new Map([...body.matchAll(pattern)].map((match) => [match[1], match[2]]));
}

function render(items, version) {
  const tags = tagsOfRecords(items);
  const parts = items.map((item) => {
    switch (item.kind) {
      case "bits":
        return renderBits(item);
      case "names":
        return `export type ${item.name} =\n${item.values.map((value) => `  | ${JSON.stringify(value)}`).join("\n")};\n`;
      case "union":
        return `export type ${item.name} =\n${item.variants.map((v) => `  | ${variantType(v, item.tag)}`).join("\n")};\n`;
      default:
        return renderRecord(item, tags.get(item.name));
    }
  });
  return `${header(version)}\n${parts.join("\n")}`;
}

function header(version) {
  return `// Generated from ahp-types ${version} by scripts/generate-types.mjs. Do not edit.
//
// Values of newer protocol versions are not in these types, but they arrive: code that switches over a tag needs a
// branch for the rest.

export type Uri = string;

export type StringOrMarkdown = string | { markdown: string };

/** The protocol version that these types describe. */
export const PROTOCOL_VERSION = "${version}";
`;
}

function renderBits({ name, values }) {
  const constants = values.map(([key, value]) => `  ${key}: ${value},`).join("\n");
  return `export type ${name} = number;\n\nexport const ${name} = {\n${constants}\n} as const;\n`;
}

function renderRecord({ name, fields }, tag) {
  const rest = fields.filter((field) => field.name !== tag?.name);
  const lines = rest.map((field) => `  ${property(field)};`);
  if (tag) lines.unshift(`  ${tag.name}: ${[...tag.values].map((value) => JSON.stringify(value)).join(" | ")};`);
  return lines.length === 0
    ? `export type ${name} = Record<string, never>;\n`
    : `export interface ${name} {\n${lines.join("\n")}\n}\n`;
}

/** A record that is a variant of a tagged union carries the tag, as it does on the wire. */
function tagsOfRecords(items) {
  const tags = new Map();
  for (const union of items.filter((item) => item.kind === "union" && item.tag)) {
    for (const variant of union.variants.filter((variant) => variant.type)) {
      const record = plain(variant.type);
      const tag = tags.get(record) ?? { name: union.tag, values: new Set() };
      if (tag.name !== union.tag) fail(`${record} has two tags`);
      tags.set(record, { ...tag, values: tag.values.add(variant.wire) });
    }
  }
  return tags;
}

function variantType(variant, tag) {
  if (variant.type) return typeOf(variant.type);
  const properties = variant.fields.map(property);
  return `{ ${[`${tag}: ${JSON.stringify(variant.wire)}`, ...properties].join("; ")} }`;
}

function property(field) {
  const name = /^\w+$/.test(field.name) ? field.name : JSON.stringify(field.name);
  const inner = /^Option<(.+)>$/.exec(field.type)?.[1];
  if (inner && field.optional) return `${name}?: ${typeOf(inner)}`;
  return `${name}: ${typeOf(field.type)}`;
}

function plain(type) {
  return /^Box<(.+)>$/.exec(type)?.[1] ?? type;
}

function typeOf(rust) {
  const type = plain(rust);
  const wrapped = /^(Vec|Option)<(.+)>$/.exec(type);
  if (wrapped) {
    const inner = typeOf(wrapped[2]);
    return wrapped[1] === "Vec" ? `${inner.includes(" ") ? `(${inner})` : inner}[]` : `${inner} | null`;
  }
  const map = /^(?:std::collections::)?HashMap<String, (.+)>$/.exec(type);
  if (map) return `Record<string, ${typeOf(map[1])}>`;
  const primitives = {
    String: "string",
    bool: "boolean",
    i32: "number",
    i64: "number",
    u32: "number",
    u64: "number",
    f64: "number",
    AnyValue: "unknown",
    "serde_json::Value": "unknown",
    JsonObject: "Record<string, unknown>",
    "serde_json::Map<String, serde_json::Value>": "Record<string, unknown>",
  };
  if (type in primitives) return primitives[type];
  if (!/^\w+$/.test(type)) fail(`a type of an unknown shape: ${type}`);
  return type;
}

function camelCase(name) {
  return name.replace(/_(\w)/g, (_, letter) => letter.toUpperCase());
}

function fail(message) {
  throw new Error(message);
}
