// Settings of a session as fields, from the schema that the host gives.

import { For, Match, Show, Switch } from "solid-js";
import type { JSX } from "solid-js";
import type { SessionConfigPropertySchema, SessionConfigSchema } from "../ahp/types.gen";

type Property = [string, SessionConfigPropertySchema];

/** Returns the settings that a plain field can show. */
export function shownProperties(schema: SessionConfigSchema | undefined, mutableOnly = false): Property[] {
  return Object.entries(schema?.properties ?? {}).filter(([, property]) => {
    const simple = property.enum !== undefined || ["boolean", "string", "number", "integer"].includes(property.type);
    return simple && !property.readOnly && (!mutableOnly || property.sessionMutable === true);
  });
}

export function Settings(props: {
  schema: SessionConfigSchema;
  values: Record<string, unknown>;
  mutableOnly?: boolean;
  change(name: string, value: unknown): void;
}): JSX.Element {
  return (
    <For each={shownProperties(props.schema, props.mutableOnly)}>
      {([name, property]) => (
        <label class="field">
          <span>{property.title || name}</span>
          <Switch
            fallback={
              <input
                type={property.type === "string" ? "text" : "number"}
                value={String(props.values[name] ?? property.default ?? "")}
                onChange={(event) => {
                  const { value } = event.currentTarget;
                  props.change(name, property.type === "string" ? value : Number(value));
                }}
              />
            }
          >
            <Match when={property.enum}>
              {(values) => (
                <select
                  onChange={(event) => props.change(name, values()[event.currentTarget.selectedIndex])}
                  value={String(props.values[name] ?? property.default ?? "")}
                >
                  <For each={values()}>
                    {(value, index) => (
                      <option value={String(value)}>{property.enumLabels?.[index()] ?? String(value)}</option>
                    )}
                  </For>
                </select>
              )}
            </Match>
            <Match when={property.type === "boolean"}>
              <input
                type="checkbox"
                checked={Boolean(props.values[name] ?? property.default)}
                onChange={(event) => props.change(name, event.currentTarget.checked)}
              />
            </Match>
          </Switch>
          <Show when={property.description}>
            <small class="muted">{property.description}</small>
          </Show>
        </label>
      )}
    </For>
  );
}
