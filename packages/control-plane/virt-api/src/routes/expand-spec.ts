// SPDX-License-Identifier: Apache-2.0
// GET .../expand-spec and PUT .../expand-vm-spec: apply instancetype and preference. Source: KubeVirt pkg/virt-api/rest/expand.go.
import { VIRTUAL_MACHINES, type AutoBinding, type VirtualMachine } from "@patchbay/api";
import type { Cause } from "@patchbay/api/kubernetes";
import { buildAutoNic, declaresNoNics, findMistypedFields } from "@patchbay/api/validate";
import { validateMatchers, MATCHER_ROLES } from "@patchbay/core/instancetype";
import { withNics } from "@patchbay/core/nics";
import { asObject, findSubject } from "../admission/review.ts";
import { expandVm, inferVm } from "../expansion.ts";
import { toFailureAnswer, toNotFoundAnswer, type Answer, type CallHandler } from "../http/calls.ts";
import type { Deps } from "../deps.ts";

function toRejection(causes: readonly Cause[]): Answer {
  const message = causes.map((cause) => cause.message).join(", ");
  return toFailureAnswer({ code: 400, message });
}

async function expand(deps: Deps, vm: VirtualMachine): Promise<Answer> {
  const matchers = validateMatchers(vm, undefined);
  if (matchers.length > 0) return toRejection(matchers);
  const inferred = await inferVm(deps.store, vm);
  if (inferred.kind === "refused") return toFailureAnswer({ code: 400, message: inferred.message });
  const { vm: body, causes } = await expandVm(deps.store, inferred.vm);
  return causes.length === 0 ? { code: 200, body } : toRejection(causes);
}

/** Returns the expanded VM. The response is 404 if no VM exists, or 400 if an instancetype or preference is missing or conflicts. */
export function expandSpec(deps: Deps): CallHandler {
  return async (call) => {
    const vm = await deps.store.find(VIRTUAL_MACHINES, call);
    return vm === undefined
      ? toNotFoundAnswer({ type: VIRTUAL_MACHINES, name: call.name })
      : expand(deps, vm);
  };
}

function withDefaultNic(vm: VirtualMachine, binding: AutoBinding): VirtualMachine {
  const { template } = vm.spec;
  const defaultNic = declaresNoNics(template.spec)
    ? buildAutoNic(template.spec, binding)
    : undefined;
  if (defaultNic === undefined) return vm;
  const spec = withNics(template.spec, [defaultNic.network], [defaultNic.iface]);
  return { ...vm, spec: { ...vm.spec, template: { ...template, spec } } };
}

function addNicToAnswer(answer: Answer, binding: AutoBinding): Answer {
  return answer.code === 200
    ? { ...answer, body: withDefaultNic(answer.body as VirtualMachine, binding) }
    : answer;
}

function toInvalidVmAnswer(fields: readonly string[]): Answer {
  const message = "Object is not a valid VirtualMachine";
  const causes = fields.map((field) => ({
    reason: "FieldValueInvalid" as const,
    field,
    message: `${field} is missing or has the wrong type`,
  }));
  return toFailureAnswer({ code: 400, message, causes });
}

/** Returns the VM with the request's namespace, or an error response. An invalid VM is sent back unchanged if it has nothing to expand. */
function parseSentVm(body: unknown, namespace: string): VirtualMachine | Answer {
  const { spec } = asObject(body);
  const invalidFields = findMistypedFields(spec);
  const subject = findSubject(VIRTUAL_MACHINES.kind, body);
  if (subject?.kind !== "vm" || invalidFields.length > 0) {
    const hasNoMatcher = MATCHER_ROLES.every((role) => asObject(spec)[role] === undefined);
    return hasNoMatcher ? { code: 200, body } : toInvalidVmAnswer(invalidFields);
  }
  const { vm } = subject;
  const vmNamespace = vm.metadata.namespace ?? namespace;
  if (vmNamespace === namespace) return { ...vm, metadata: { ...vm.metadata, namespace } };
  const message = `the VirtualMachine has namespace ${vmNamespace}, but the request has namespace ${namespace}`;
  return toFailureAnswer({ code: 400, message });
}

/** Responds with the expanded VM. The VM in the body need not exist in the cluster. */
export function expandVmSpec(deps: Deps): CallHandler {
  return async ({ body, namespace }) => {
    if (asObject(body)["kind"] !== VIRTUAL_MACHINES.kind)
      return toFailureAnswer({ code: 400, message: "the request body is not a VirtualMachine" });
    const sentVm = parseSentVm(body, namespace);
    if ("code" in sentVm) return sentVm;
    return addNicToAnswer(await expand(deps, sentVm), deps.networkConfig().autoBinding);
  };
}
