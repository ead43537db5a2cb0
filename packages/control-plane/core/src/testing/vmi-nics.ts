// SPDX-License-Identifier: Apache-2.0
// The networks and interfaces of a VMI after one pass over its VM, if the API server accepts all changes.
import type { BindingRegistry, VirtualMachineInstance, VmiSpec } from "@patchbay/api";
import type { Nics } from "../nics/nics.ts";
import { planNicsChange, withPlug } from "../nics/spec-plan.ts";

export function nicsAfter(
  template: VmiSpec,
  vmi: VirtualMachineInstance,
  bindings: BindingRegistry = {},
): Nics {
  const { planned: retained, plugs } = planNicsChange(template, vmi, bindings);
  return plugs.reduce(withPlug, retained);
}
