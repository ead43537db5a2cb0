// SPDX-License-Identifier: Apache-2.0
// GET .../expand-spec and PUT .../expand-vm-spec: a VM with what it takes from instance types and preferences.
import { VIRTUAL_MACHINES } from "@patchbay/api";
import { toFailureAnswer, toNotFoundAnswer, type Answer } from "../http/answers.ts";
import type { Deps } from "../deps.ts";
import type { CallHandler } from "./call.ts";

/** What a VM may take from elsewhere. Source: KubeVirt VirtualMachineSpec. */
const MATCHERS = ["instancetype", "preference"] as const;

function fieldOf(value: unknown, name: string): unknown {
  return typeof value === "object" && value !== null
    ? (value as Readonly<Record<string, unknown>>)[name]
    : undefined;
}

/** A VM that takes nothing from elsewhere is what it says itself. */
function expanded(vm: unknown): Answer {
  const spec = fieldOf(vm, "spec");
  const found = MATCHERS.find((name) => fieldOf(spec, name) !== undefined);
  if (found === undefined) return { code: 200, body: vm };
  const message = `Patchbay does not have instance types and preferences: spec.${found} cannot be expanded`;
  return toFailureAnswer({ code: 400, message });
}

/** Answers with the VM of that name; 404 where there is none, 400 where it names what cannot be looked up. */
export function expandSpec(deps: Deps): CallHandler {
  return async (call) => {
    const vm = await deps.store.find(VIRTUAL_MACHINES, call);
    return vm === undefined
      ? toNotFoundAnswer({ type: VIRTUAL_MACHINES, name: call.name })
      : expanded(vm);
  };
}

/** Answers with the VM that was sent, which need not be there. */
export const expandVmSpec: CallHandler = ({ body }) => {
  if (fieldOf(body, "kind") === VIRTUAL_MACHINES.kind) return Promise.resolve(expanded(body));
  const message = "the request body is no VirtualMachine";
  return Promise.resolve(toFailureAnswer({ code: 400, message }));
};
