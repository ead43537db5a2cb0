// SPDX-License-Identifier: Apache-2.0
// Features of the guest's machine. Source: KubeVirt api/core/v1 schema.go, type Features.
import type { TProperties } from "typebox";
import { Type } from "../../fields/schema.ts";
import { FEATURES } from "../../fields/guest-fields.ts";

/** A feature that is on when it is named. Source: KubeVirt FeatureState. */
const feature = <T extends TProperties>(description: string, more: T) =>
  Type.Optional(
    Type.Object(
      {
        enabled: Type.Optional(
          Type.Boolean({ description: "Whether it is on; true when absent." }),
        ),
        ...more,
      },
      { description },
    ),
  );

/** Those that are acted on. */
export const FEATURE_FIELDS = {
  acpi: feature("ACPI; the guest has it when this is absent.", {}),
  apic: feature("APIC; the guest has it when this is absent.", {
    endOfInterrupt: Type.Optional(
      Type.Boolean({ description: "End of interrupts is told without an exit." }),
    ),
  }),
  kvm: Type.Optional(
    Type.Object(
      { hidden: Type.Optional(Type.Boolean({ description: "The guest does not see it." })) },
      { description: "How KVM shows itself." },
    ),
  ),
  pvspinlock: feature("Spinlocks that give way.", {}),
  smm: feature("System Management Mode, which secure boot needs.", {}),
};

/** `spec.domain.features`. */
export const FeaturesSchema = Type.Object(
  {
    ...FEATURE_FIELDS,
    ...FEATURES,
  },
  { description: "Features of the machine." },
);
