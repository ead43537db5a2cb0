// SPDX-License-Identifier: Apache-2.0
// Renders the files of crds/ and crds/networks.
import { customResourceDefinitions, names } from "@patchbay/api";
import { stringify } from "yaml";

const HEADER =
  "# SPDX-License-Identifier: Apache-2.0\n# Generated from packages/control-plane/api; do not edit. Run: npm run gen\n";

function renderKustomization(resources: readonly string[]): readonly [string, string] {
  const apiVersion = "kustomize.config.k8s.io/v1beta1";
  const text = stringify({ apiVersion, kind: "Kustomization", resources });
  return ["kustomization.yaml", HEADER + text];
}

/** Quotes `Off`, which kubectl 1.20 would parse as a boolean, as YAML 1.1 does. */
const STYLE = { lineWidth: 100, aliasDuplicateObjects: false, version: "1.1" } as const;

function renderDefinitions(isExpected: (group: string) => boolean): ReadonlyMap<string, string> {
  return new Map(
    customResourceDefinitions()
      .filter(({ spec }) => isExpected(spec.group))
      .map((crd): [string, string] => [
        `${crd.spec.group}_${crd.spec.names.plural}.yaml`,
        HEADER + stringify(crd, STYLE),
      ]),
  );
}

/**
 * Returns the texts of crds/networks by file name. No kustomization lists these files, because other projects also need
 * the definition of networks, and `kubectl delete -k` would delete it together with all networks.
 */
export function renderNetworks(): ReadonlyMap<string, string> {
  return renderDefinitions((group) => group === names.NAD_GROUP);
}

/** Returns the texts of crds/ by file name. */
export function renderCrds(): ReadonlyMap<string, string> {
  const definitions = renderDefinitions((group) => group !== names.NAD_GROUP);
  return new Map([...definitions, renderKustomization([...definitions.keys()])]);
}
