// SPDX-License-Identifier: Apache-2.0
// Renders the files of the Helm chart.
import { names } from "@patchbay/api";
import { stringify } from "yaml";
import { renderAdditions } from "./additions.ts";
import type { Base } from "./base.ts";
import { readConfigurationSchema, type Schema } from "./configuration-schema.ts";
import { toYaml } from "./template.ts";
import { renderTemplates } from "./templates.ts";
import {
  isValue,
  listValues,
  toTree,
  type ChartValue,
  type ReleasedImages,
  type ValueTree,
} from "./values.ts";

export const CHART_NAME = names.PRODUCT;
/** Oldest supported version of Kubernetes. Source: docs/install.md */
const OLDEST_KUBERNETES = ">=1.26.0-0";
const KUBEVIRT_DEFINITION = "kubevirt.io_kubevirts.yaml";
const WIDTH = 100;

/** Lists the chart's values; `released` changes defaults. @throws Error if the base lacks what they describe */
export function listChartValues(base: Base, released: ReleasedImages = {}): readonly ChartValue[] {
  const definition = base.definitions.get(KUBEVIRT_DEFINITION);
  if (definition === undefined) throw new Error(`crds has no ${KUBEVIRT_DEFINITION}`);
  return listValues(base, readConfigurationSchema(definition), released);
}

/** Wraps a text into comment lines. */
function toComment(text: string): string {
  const lines: string[] = [];
  let line = "#";
  for (const word of text.split(" ")) {
    if (line.length + 1 + word.length > WIDTH) {
      lines.push(line);
      line = "#";
    }
    line += ` ${word}`;
  }
  return [...lines, line, ""].join("\n");
}

function printTree(tree: ValueTree): string {
  return Object.entries(tree)
    .map(([name, node]) =>
      isValue(node)
        ? `${toComment(node.description)}${toYaml({ [name]: node.default })}`
        : `${name}:\n${printTree(node).replaceAll(/^(?=.)/gm, "  ")}`,
    )
    .join("");
}

function toSchema(tree: ValueTree): Schema {
  const properties = Object.entries(tree).map(([name, node]) => [
    name,
    isValue(node) ? { description: node.description, ...node.schema } : toSchema(node),
  ]);
  return {
    type: "object",
    additionalProperties: false,
    properties: Object.fromEntries(properties) as Schema,
  };
}

/** The schema of all values. Helm adds `global` if another chart includes this one. */
export function renderSchema(values: readonly ChartValue[]): Schema {
  const global: ChartValue = {
    name: "global",
    description: "Values of the chart that includes this one; ignored.",
    schema: { type: "object" },
    default: undefined,
  };
  const $schema = "http://json-schema.org/draft-07/schema#";
  return { $schema, ...toSchema(toTree([...values, global])) };
}

function renderMetadata(version: string): string {
  return stringify({
    apiVersion: "v2",
    name: CHART_NAME,
    description: "Plugs network interfaces into running virtual machines",
    type: "application",
    version,
    appVersion: version,
    kubeVersion: OLDEST_KUBERNETES,
  });
}

const SEMANTIC_VERSION = /^\d+\.\d+\.\d+(?:-[0-9A-Za-z.-]+)?(?:\+[0-9A-Za-z.-]+)?$/;

/** Renders the chart's files by path. @throws Error if the version is not a semantic version, which Helm requires */
export function renderChart(
  base: Base,
  version: string,
  released: ReleasedImages = {},
): ReadonlyMap<string, string> {
  if (!SEMANTIC_VERSION.test(version)) {
    throw new Error(`${version} is no semantic version such as 0.2.0`);
  }
  const identity = { name: CHART_NAME, version };
  const values = listChartValues(base, released);
  const inFolder =
    (folder: string) =>
    ([name, text]: [string, string]): [string, string] => [`${folder}/${name}`, text];
  return new Map([
    ["Chart.yaml", renderMetadata(version)],
    ["values.yaml", printTree(toTree(values))],
    ["values.schema.json", `${JSON.stringify(renderSchema(values), undefined, 2)}\n`],
    ...[...base.definitions].map(inFolder("crds")),
    ...[...renderTemplates(base, identity), ...renderAdditions(base, identity)].map(
      inFolder("templates"),
    ),
  ]);
}
