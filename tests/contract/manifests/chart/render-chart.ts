// SPDX-License-Identifier: Apache-2.0
// Renders the Helm chart with Go's text/template, which kubectl contains. Helm's functions that the chart uses (`toJson`, `fail`,
// `semverCompare`, `.Capabilities.APIVersions.Has`) are replaced by templates and data.
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { isJsonObject } from "@patchbay/api/json";
import type { KubeObject } from "@patchbay/api/kubernetes";
import { createProcessRunner } from "@patchbay/os";
import { parse } from "yaml";

export interface ChartInput {
  /** Values that the user sets, as in a file of values. */
  readonly values?: Values;
  /** Minor version of Kubernetes 1. */
  readonly kubernetesMinor?: number;
  readonly namespace?: string;
  readonly isUpgrade?: boolean;
  /** API versions that the cluster serves, for example `security.openshift.io/v1`. */
  readonly served?: readonly string[];
}

export interface RenderedChart {
  readonly objects: readonly KubeObject[];
  readonly notes: string;
  /** Messages of `fail`. */
  readonly failures: readonly string[];
}

const CURRENT_MINOR = 36;
const KIND = { apiVersion: "patchbay.io/v1", kind: "Data", metadata: { name: "data" } };
const FAILURE = "FAILURE: ";
const END = "#### end of case";
const NOTES = "#### notes";
const TIMEOUT_MS = 60_000;

/** Prints a value as JSON, except commas after last entries, which YAML allows. */
const TO_JSON = `{{- define "toJson" -}}
{{- $type := printf "%T" . -}}
{{- if eq $type "map[string]interface {}" -}}
{ {{- range $name, $value := . }}{{ printf "%q" $name }}: {{ template "toJson" $value }}, {{ end -}} }
{{- else if eq $type "[]interface {}" -}}
[ {{- range . }}{{ template "toJson" . }}, {{ end -}} ]
{{- else if eq $type "string" }}{{ printf "%q" . }}
{{- else if eq $type "<nil>" }}null
{{- else }}{{ . }}
{{- end }}
{{- end }}
`;

const CONSTRAINT = /semverCompare "([<>]=?)1\.(\d+)-0" \.Capabilities\.KubeVersion\.Version/g;

/** Replaces the calls of Helm's functions. */
function replaceFunctions(template: string): string {
  return template
    .replaceAll(/\{\{ toJson (\S+) \}\}/g, '{{ template "toJson" $1 }}')
    .replaceAll(/\{\{ fail "([^"]*)" \}\}/g, `${FAILURE}$1`)
    .replaceAll(CONSTRAINT, 'index .Constraints "$1$2"')
    .replaceAll(/\.Capabilities\.APIVersions\.Has ("[^"]*")/g, "index .Served $1");
}

type Values = Readonly<Record<string, unknown>>;

/** Merges values as Helm does: maps field by field, all others as a whole. */
export function mergeValues(initial: Values, given: Values): Values {
  const merged = Object.entries(given).map(([name, value]): [string, unknown] => {
    const before = initial[name];
    const areMaps = isJsonObject(before) && isJsonObject(value);
    return [name, areMaps ? mergeValues(before, value) : value];
  });
  return { ...initial, ...Object.fromEntries(merged) };
}

function listConstraints(templates: string, minor: number): Readonly<Record<string, boolean>> {
  const entries = [...templates.matchAll(CONSTRAINT)].map(([, operator = "", wanted = ""]) => [
    `${operator}${wanted}`,
    operator === "<" ? minor < Number(wanted) : minor >= Number(wanted),
  ]);
  return Object.fromEntries(entries) as Readonly<Record<string, boolean>>;
}

function toData(
  files: ReadonlyMap<string, string>,
  templates: string,
  input: ChartInput,
): Readonly<Record<string, unknown>> {
  const { values = {}, kubernetesMinor = CURRENT_MINOR, namespace = "patchbay" } = input;
  const { version, appVersion, name } = parse(files.get("Chart.yaml") ?? "") as Readonly<
    Record<string, string>
  >;
  return {
    Values: mergeValues(parse(files.get("values.yaml") ?? "") as Values, values),
    Chart: { Name: name, Version: version, AppVersion: appVersion },
    Release: {
      Name: "patchbay",
      Namespace: namespace,
      Service: "Helm",
      IsUpgrade: input.isUpgrade ?? false,
    },
    Constraints: listConstraints(templates, kubernetesMinor),
    Served: Object.fromEntries((input.served ?? []).map((each) => [each, true])),
  };
}

/** Objects by their text, because most objects of two renderings are equal. */
const parsed = new Map<string, KubeObject | undefined>();

function parseObject(text: string): KubeObject | undefined {
  if (!parsed.has(text)) {
    // The cast is safe, because the tests compare the objects. An omitted object leaves no text.
    parsed.set(text, (parse(text, { version: "1.1" }) ?? undefined) as KubeObject | undefined);
  }
  return parsed.get(text);
}

function toRendered(text: string): RenderedChart {
  const [manifests = "", notes = ""] = text.split(`${NOTES}\n`);
  const failures = manifests
    .split("\n")
    .filter((line) => line.startsWith(FAILURE))
    .map((line) => line.slice(FAILURE.length));
  if (failures.length > 0) return { objects: [], notes, failures };
  const objects = manifests
    .split(/^---$/m)
    .map(parseObject)
    .filter((object) => object !== undefined);
  return { objects, notes, failures };
}

/** Renders the chart's files once for each input. */
export async function renderChartWithKubectl(
  files: ReadonlyMap<string, string>,
  inputs: readonly ChartInput[],
): Promise<readonly RenderedChart[]> {
  const templates = [...files].filter(([path]) => path.startsWith("templates/"));
  const texts = (wanted: (path: string) => boolean): string =>
    templates
      .filter(([path]) => wanted(path))
      .map(([, text]) => `${text}\n`)
      .join("");
  const definitions = texts((path) => path.endsWith(".tpl"));
  const manifests = texts((path) => path.endsWith(".yaml"));
  const template = [
    TO_JSON,
    definitions,
    "{{ range .Cases }}",
    manifests,
    `${NOTES}\n`,
    texts((path) => path.endsWith(".txt")),
    `${END}\n{{ end }}`,
  ].join("");
  const directory = await mkdtemp(join(tmpdir(), "patchbay-chart-"));
  try {
    const [data, source] = [join(directory, "data.json"), join(directory, "chart.tpl")];
    const cases = inputs.map((input) => toData(files, manifests, input));
    await writeFile(data, JSON.stringify({ ...KIND, Cases: cases }));
    await writeFile(source, replaceFunctions(template));
    const command = ["kubectl", "label", "--local", "--filename", data, "test=chart"] as const;
    const argv = [...command, "--output", `go-template-file=${source}`] as const;
    const { stdout } = await createProcessRunner().run({ argv, timeoutMs: TIMEOUT_MS });
    return stdout.split(`${END}\n`).slice(0, -1).map(toRendered);
  } finally {
    await rm(directory, { recursive: true });
  }
}
