// SPDX-License-Identifier: Apache-2.0
// Leases. Source: Kubernetes coordination.k8s.io/v1 Lease.
import type { Cause } from "../../meta/status.ts";
import { invalidValue } from "../../meta/causes.ts";
import { textAt, valueAt } from "../../objects/json.ts";
import type { KubeObject } from "../../objects/object.ts";
import { AGE } from "../../table/age.ts";
import { type Kind, defineKind } from "../kind.ts";

function validate(lease: KubeObject): Cause[] {
  const seconds = valueAt(lease, "spec", "leaseDurationSeconds");
  return typeof seconds === "number" && seconds <= 0
    ? [invalidValue("spec.leaseDurationSeconds", seconds, "must be greater than 0")]
    : [];
}

export const LEASE: Kind = defineKind({
  group: "coordination.k8s.io",
  version: "v1",
  resource: "leases",
  kind: "Lease",
  strategy: {
    allowsUnconditionalUpdate: false,
    allowsCreateOnUpdate: true,
    validate,
    columns: [
      { name: "Holder", type: "string", cell: (lease) => textAt(lease, "spec", "holderIdentity") },
      AGE,
    ],
  },
});
