// SPDX-License-Identifier: Apache-2.0
// docs/configuration.md names every setting of the KubeVirt object, every feature gate, and no others.
import { expect, test } from "vitest";
import { readConfigurationSchema, type Schema } from "../../hack/chart/configuration-schema.ts";
import { readText } from "./documents.ts";

const schema = readConfigurationSchema(readText("crds/kubevirt.io_kubevirts.yaml"));
const page = readText("docs/configuration.md");
/** Groups whose settings the page lists one by one. The page describes the others as a whole. */
const GROUPS = ["network", "developerConfiguration", "virtualMachineOptions"];

function propertiesOf(of: Schema): Readonly<Record<string, Schema>> {
  return (of["properties"] ?? {}) as Readonly<Record<string, Schema>>;
}

/** Names in backticks in the first column of the table below a header. */
function listFirstColumn(header: string): readonly string[] {
  const [, below = ""] = page.split(new RegExp(`^\\| ${header} .*$`, "m"));
  const [table = ""] = below.split("\n\n", 1);
  const cells = table.split("\n").map((row) => row.split("|")[1] ?? "");
  return cells
    .flatMap((cell) => [...cell.matchAll(/`([^`]+)`/g)].map(([, name = ""]) => name))
    .sort();
}

test("the page lists the settings", () => {
  const settings = Object.entries(propertiesOf(schema)).flatMap(([name, of]) =>
    GROUPS.includes(name)
      ? Object.keys(propertiesOf(of)).map((inner) => `${name}.${inner}`)
      : [name],
  );
  expect(listFirstColumn("setting")).toEqual(settings.sort());
});

test("the page lists the feature gates", () => {
  const group = propertiesOf(propertiesOf(schema)["developerConfiguration"] ?? {});
  const description = String(group["featureGates"]?.["description"]);
  const gates = description
    .split(" ")
    .filter((word) => word.endsWith(":"))
    .map((word) => word.slice(0, -1));
  expect(gates.length).toBeGreaterThan(3);
  expect(listFirstColumn("feature gate")).toEqual(gates.sort());
});
