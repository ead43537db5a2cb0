// SPDX-License-Identifier: Apache-2.0
// The CRDs of this version.
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { parse } from "yaml";
import { readCrd, type CrdRecord } from "./crd-record.ts";
import { ROOT } from "./recorded.ts";

/** The definitions in `crds/` and `crds/networks/`. */
export function readDefinitions(): readonly unknown[] {
  return ["crds", "crds/networks"].flatMap((folder) =>
    readdirSync(join(ROOT, folder))
      .filter((name) => name.endsWith(".yaml") && name !== "kustomization.yaml")
      .map((name): unknown => parse(readFileSync(join(ROOT, folder, name), "utf8"))),
  );
}

/** Records of the definitions, sorted by name. */
export function readCurrentCrds(): readonly CrdRecord[] {
  return readDefinitions()
    .map(readCrd)
    .toSorted((left, right) => (left.name < right.name ? -1 : 1));
}
