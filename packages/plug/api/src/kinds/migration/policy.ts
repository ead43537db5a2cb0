// SPDX-License-Identifier: Apache-2.0
// MigrationPolicy: other settings than the cluster's for some guests that move. Source: KubeVirt api/migrations/v1alpha1 types.go.
import type { Static } from "typebox";
import { Type } from "../../fields/schema.ts";
import type { KubeObject } from "../kubernetes/meta.ts";
import { OPEN } from "../network.ts";
import { MIGRATION_SETTINGS } from "./configuration.ts";

function labels(description: string) {
  return Type.Optional(Type.Record(Type.String(), Type.String(), { description }));
}

/** Whose, and what is other. */
export const MigrationPolicySpecSchema = Type.Object(
  {
    selectors: Type.Optional(
      Type.Object(
        {
          namespaceSelector: labels("Labels that the VM's namespace has, all of them."),
          virtualMachineInstanceSelector: labels(
            "Labels that the VirtualMachineInstance has, all of them.",
          ),
        },
        {
          ...OPEN,
          description:
            "Of several that match, the one with most labels counts, then the one with most labels of the VMI, then the first by name; one without any matches nothing.",
        },
      ),
    ),
    ...MIGRATION_SETTINGS,
  },
  OPEN,
);

/** Other settings for some guests. */
export interface MigrationPolicy extends KubeObject {
  readonly spec: Static<typeof MigrationPolicySpecSchema>;
}
