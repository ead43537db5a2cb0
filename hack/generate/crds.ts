// SPDX-License-Identifier: Apache-2.0
// What the files in crds/ must say.
import { customResourceDefinitions } from "@patchbay/api";
import { stringify } from "yaml";

const HEADER =
  "# SPDX-License-Identifier: Apache-2.0\n# Generated from packages/api; do not edit. Run: npm run gen\n";

/** File names and their text. */
export function renderCrds(): ReadonlyMap<string, string> {
  return new Map(
    customResourceDefinitions().map((crd) => [
      `${crd.spec.group}_${crd.spec.names.plural}.yaml`,
      HEADER + stringify(crd, { lineWidth: 100, aliasDuplicateObjects: false }),
    ]),
  );
}
