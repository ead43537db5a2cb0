// SPDX-License-Identifier: Apache-2.0
// The KubeVirt kind: the configuration of the cluster. Source: KubeVirt api/core/v1 types.go KubeVirtConfiguration.
import { Type, type Static } from "typebox";
import type { KubeObject } from "./meta.ts";
import { OPEN } from "./network.ts";
import { CONDITIONS_SCHEMA } from "./vmi.ts";

export const KubeVirtSpecSchema = Type.Object(
  {
    configuration: Type.Optional(
      Type.Object(
        {
          network: Type.Optional(Type.Object({}, OPEN)),
          developerConfiguration: Type.Optional(
            Type.Object(
              {
                useEmulation: Type.Optional(
                  Type.Boolean({
                    description: "Guests run under software emulation, without KVM.",
                  }),
                ),
              },
              OPEN,
            ),
          ),
        },
        OPEN,
      ),
    ),
  },
  OPEN,
);

export const KubeVirtStatusSchema = Type.Object(
  { phase: Type.Optional(Type.String()), conditions: Type.Optional(CONDITIONS_SCHEMA) },
  OPEN,
);

/** The cluster's configuration. */
export interface KubeVirt extends KubeObject {
  readonly spec?: Static<typeof KubeVirtSpecSchema>;
  readonly status?: Static<typeof KubeVirtStatusSchema>;
}

/** Whether guests run without KVM. Source: KubeVirt DeveloperConfiguration.useEmulation. */
export function usesEmulation(kubevirt: KubeVirt | undefined): boolean {
  return kubevirt?.spec?.configuration?.developerConfiguration?.useEmulation === true;
}
