// SPDX-License-Identifier: Apache-2.0
// What the files in crds/ must say.
import { customResourceDefinitions } from "@patchbay/api";
import { stringify } from "yaml";

const HEADER =
  "# SPDX-License-Identifier: Apache-2.0\n# Generated from packages/plug/api; do not edit. Run: npm run gen\n";

/** What kustomize takes of the folder. */
function renderKustomization(resources: readonly string[]): string {
  const apiVersion = "kustomize.config.k8s.io/v1beta1";
  return HEADER + stringify({ apiVersion, kind: "Kustomization", resources });
}

/** File names and their text. */
export function renderCrds(): ReadonlyMap<string, string> {
  const definitions = customResourceDefinitions().map((crd): [string, string] => [
    `${crd.spec.group}_${crd.spec.names.plural}.yaml`,
    HEADER + stringify(crd, { lineWidth: 100, aliasDuplicateObjects: false }),
  ]);
  const files = definitions.map(([name]) => name);
  return new Map([...definitions, ["kustomization.yaml", renderKustomization(files)]]);
}
