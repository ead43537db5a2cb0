// SPDX-License-Identifier: Apache-2.0
// PUT requests that change a VM: addinterface, removeinterface, start, stop, restart, migrate and evacuate/cancel.
import {
  VIRTUAL_MACHINE_INSTANCES,
  VIRTUAL_MACHINES,
  type ResourceType,
  type VirtualMachine,
  type VirtualMachineInstance,
  type NetworkConfig,
  type StateChangeRequest,
  apiVersionOf,
  VIRTUAL_MACHINE_INSTANCE_MIGRATIONS,
  type VirtualMachineInstanceMigration,
} from "@patchbay/api";
import type { KubeObject } from "@patchbay/api/kubernetes";
import type { FieldProblem } from "@patchbay/api/validate";
import { isOwnedBy, findOwnerVm } from "@patchbay/core/vm";
import {
  type NicTarget,
  findTargetProblem,
  type NicPlan,
  parseAddIface,
  planAddIface,
  parseRemoveIface,
  planRemoveIface,
  type Parsed,
  type RunStateFacts,
  type RunStateOptions,
  type RunStatePlan,
  parseStartBody,
  planStart,
  parseStopBody,
  planStop,
  parseRestartBody,
  planRestart,
  parseMigrateBody,
  planMigrate,
  readMembers,
} from "@patchbay/core/requests";
import { type Reader, isLostRace } from "@patchbay/kube";
import type { ObjectKey } from "@patchbay/core/interfaces";
import {
  type ObjectRef,
  toConflictAnswer,
  type Answer,
  type Call,
  toAcceptedAnswer,
  toNotFoundAnswer,
  toRefusalAnswer,
  type CallHandler,
  toFailureAnswer,
  toOkAnswer,
} from "../http/calls.ts";
import type { Deps } from "../deps.ts";
import { hasNad, findNearestNetwork, findForeignNetworkProblem } from "../networks.ts";
import { listMacConflictCauses } from "../admission/validate.ts";
import { expandVm } from "../expansion.ts";

function findResourceType(kind: NicTarget["kind"]): ResourceType<KubeObject> {
  return kind === "vm" ? VIRTUAL_MACHINES : VIRTUAL_MACHINE_INSTANCES;
}

function buildTargetRef(kind: NicTarget["kind"], { name }: Pick<ObjectKey, "name">): ObjectRef {
  return { type: findResourceType(kind), name };
}

async function findVmWithVmi(
  reader: Reader,
  key: ObjectKey,
): Promise<{ vm: VirtualMachine; vmi?: VirtualMachineInstance } | undefined> {
  const [vm, vmi] = await Promise.all([
    reader.find(VIRTUAL_MACHINES, key),
    reader.find(VIRTUAL_MACHINE_INSTANCES, key),
  ]);
  if (vm === undefined) return undefined;
  return vmi !== undefined && isOwnedBy(vmi, vm) ? { vm, vmi } : { vm };
}

/** Returns the VM that owns the VMI; undefined if the VMI has no owner or the owner was replaced. */
async function findOwner(
  reader: Reader,
  vmi: VirtualMachineInstance,
): Promise<VirtualMachine | undefined> {
  const owner = findOwnerVm(vmi);
  if (owner === undefined) return undefined;
  const namespace = vmi.metadata.namespace ?? "";
  const vm = await reader.find(VIRTUAL_MACHINES, { namespace, name: owner.name });
  return vm?.metadata.uid === owner.uid ? vm : undefined;
}

async function observeTarget(
  reader: Reader,
  kind: NicTarget["kind"],
  key: ObjectKey,
): Promise<NicTarget | undefined> {
  if (kind === "vm") {
    const observed = await findVmWithVmi(reader, key);
    return observed === undefined ? undefined : { kind: "vm", ...observed };
  }
  const vmi = await reader.find(VIRTUAL_MACHINE_INSTANCES, key);
  return vmi === undefined ? undefined : { kind: "vmi", vmi };
}

/** Maximum number of attempts per request. More conflicts indicate a fault of another writer. */
const ATTEMPTS_MAX = 10;

function findServerMessage(conflict: unknown): string {
  const { message } = isLostRace(conflict) ? conflict.details : {};
  return typeof message === "string" ? message : "";
}

/** Repeats `attempt`, at most ATTEMPTS_MAX times, after a conflict or the result "again". `count` is the number of earlier attempts. */
async function retryOnConflict(
  attempt: (count: number) => Promise<Answer | "again">,
  { log }: Pick<Deps, "log">,
  objectRef: ObjectRef,
): Promise<Answer> {
  let conflict: unknown;
  for (let count = 0; count < ATTEMPTS_MAX; count += 1) {
    try {
      const answer = await attempt(count);
      if (answer !== "again") return answer;
    } catch (error) {
      if (!isLostRace(error)) throw error;
      conflict = error;
    }
  }
  const reason = findServerMessage(conflict);
  log.warn("abandoned a request after too many conflicts", {
    resource: objectRef.type.resource,
    object: objectRef.name,
    reason,
  });
  return toConflictAnswer(objectRef, reason);
}

interface NicChange {
  readonly kind: NicTarget["kind"];
  readonly plan: (target: NicTarget) => NicPlan | Promise<NicPlan>;
  readonly logChange: (target: NicTarget, call: Call) => void;
}

interface NicRequest {
  readonly change: NicChange;
  readonly call: Call;
}

type PlannedChange =
  | { readonly kind: "answer"; readonly answer: Answer }
  | { readonly kind: "write"; readonly target: NicTarget; readonly plan: PatchPlan };
type PatchPlan = Extract<NicPlan, { kind: "patch" }>;

/** Returns the object to write. For a VMI with an owner, this is the VM, because virt-controller copies NICs from VM to VMI. */
async function resolveWriteTarget(reader: Reader, target: NicTarget): Promise<NicTarget> {
  if (target.kind === "vm") return target;
  const vm = await findOwner(reader, target.vmi);
  return vm === undefined ? target : { kind: "vm", vm, vmi: target.vmi };
}

/** Removes the VMI from the target if the rollout strategy is Stage, because changes then apply at the next start. */
function applyRollout(target: NicTarget, { isStaged }: NetworkConfig): NicTarget {
  return isStaged && target.kind === "vm" ? { kind: "vm", vm: target.vm } : target;
}

async function writeNics(
  deps: Deps,
  change: { readonly target: NicTarget; readonly plan: PatchPlan },
  call: Call,
): Promise<void> {
  const { target, plan } = change;
  const object = target.kind === "vm" ? target.vm : target.vmi;
  const key = { namespace: call.namespace, name: object.metadata.name };
  const patch = { type: "json", operations: plan.operations } as const;
  const updated = await deps.store.patch(findResourceType(target.kind), key, patch, {
    dryRun: call.dryRun,
  });
  if (!call.dryRun) deps.mutationCache.note(updated);
}

async function observeAndPlan(
  reader: Reader,
  { change, call }: NicRequest,
  config: NetworkConfig,
): Promise<PlannedChange> {
  const objectRef = buildTargetRef(change.kind, call);
  const requested = await observeTarget(reader, change.kind, call);
  if (requested === undefined) return { kind: "answer", answer: toNotFoundAnswer(objectRef) };
  const problem = findTargetProblem(requested);
  if (problem !== undefined) return { kind: "answer", answer: toRefusalAnswer(problem, objectRef) };
  const target = applyRollout(await resolveWriteTarget(reader, requested), config);
  const plan = await change.plan(target);
  switch (plan.kind) {
    case "refused":
      return { kind: "answer", answer: toRefusalAnswer(plan.refusal, objectRef) };
    case "unchanged":
      return { kind: "answer", answer: toAcceptedAnswer(plan.message) };
    case "patch":
      return { kind: "write", target, plan };
  }
}

async function execute(
  deps: Deps,
  { change, call }: NicRequest,
  planned: PlannedChange,
): Promise<Answer> {
  if (planned.kind === "answer") return planned.answer;
  await writeNics(deps, planned, call);
  if (!call.dryRun) change.logChange(planned.target, call);
  return toAcceptedAnswer(planned.plan.message);
}

/**
 * Returns whether a change that was planned from the cache may be written. Returns false for a change at the next start,
 * because its patch would not fail if a guest has started meanwhile. Also returns false for a change of a VMI that a VM
 * owns, because the VM should be changed instead.
 */
function isSafeOnCache(planned: PlannedChange): boolean {
  if (planned.kind !== "write" || planned.plan.effect !== "live") return false;
  const { target } = planned;
  return target.kind === "vm" || findOwnerVm(target.vmi) === undefined;
}

async function tryOnCache(deps: Deps, request: NicRequest): Promise<Answer | "again"> {
  const planned = await observeAndPlan(deps.cachedReader, request, deps.networkConfig());
  return isSafeOnCache(planned) ? execute(deps, request, planned) : "again";
}

async function tryOnServer(deps: Deps, request: NicRequest): Promise<Answer> {
  return execute(deps, request, await observeAndPlan(deps.store, request, deps.networkConfig()));
}

function changeNics(deps: Deps, change: NicChange, call: Call): Promise<Answer> {
  const request = { change, call };
  const attempt = (count: number): Promise<Answer | "again"> =>
    count === 0 ? tryOnCache(deps, request) : tryOnServer(deps, request);
  return deps.mutex.runExclusive(`${call.namespace}/${call.name}`, () =>
    retryOnConflict(attempt, deps, buildTargetRef(change.kind, call)),
  );
}

export function addIface(deps: Deps, kind: NicTarget["kind"]): CallHandler {
  return async (call: Call) => {
    const parsed = parseAddIface(call.body);
    if (!parsed.ok) return toRefusalAnswer(parsed.refusal, buildTargetRef(kind, call));
    const request = parsed.value;
    const network = request.networkAttachmentDefinitionName;
    const reference = { networkName: network, namespace: call.namespace };
    const message = await findForeignNetworkProblem(deps, call.user, reference);
    if (message !== undefined) return toFailureAnswer({ code: 403, message });
    // The definition is read in parallel with the VM. The plan awaits the result.
    const nad = hasNad(deps.cachedReader, network, call.namespace);
    const answer = changeNics(
      deps,
      {
        kind,
        plan: async (target) => {
          const { bindings } = deps.networkConfig();
          const nadExists = await nad;
          const suggestion = nadExists
            ? undefined
            : findNearestNetwork(deps, network, call.namespace);
          const facts = {
            target,
            request,
            nadExists,
            nearestNetwork: suggestion,
            bindings,
          };
          return planAddIface(facts);
        },
        logChange: (target) => {
          const object = `${call.namespace}/${call.name}`;
          deps.log.info("requested the plug of an interface", {
            [target.kind]: object,
            iface: request.name,
            network,
            user: call.user.name,
          });
        },
      },
      call,
    );
    const [result] = await Promise.all([answer, nad]);
    return result;
  };
}

export function removeIface(deps: Deps, kind: NicTarget["kind"]): CallHandler {
  return async (call: Call) => {
    const parsed = parseRemoveIface(call.body);
    if (!parsed.ok) return toRefusalAnswer(parsed.refusal, buildTargetRef(kind, call));
    const request = parsed.value;
    return changeNics(
      deps,
      {
        kind,
        plan: (target) => planRemoveIface({ target, request }),
        logChange: (target) => {
          const object = `${call.namespace}/${call.name}`;
          deps.log.info("requested the unplug of an interface", {
            [target.kind]: object,
            iface: request.name,
            user: call.user.name,
          });
        },
      },
      call,
    );
  };
}

type AcceptedPlan = Exclude<RunStatePlan, { kind: "refused" }>;

interface StatusChange {
  readonly requests?: readonly StateChangeRequest[];
  readonly resetsBackoff?: true;
}

/**
 * Writes the state change requests and the backoff reset, if set, to the VM's status. Source: KubeVirt VirtualMachineStateChangeRequest.
 */
async function writeStatus(
  deps: Deps,
  { requests, resetsBackoff }: StatusChange,
  call: Call,
): Promise<void> {
  const status = {
    ...(requests !== undefined && { stateChangeRequests: requests }),
    ...(resetsBackoff === true && { startFailure: null }),
  };
  if (Object.keys(status).length === 0) return;
  const fields = { status };
  const options = { subresource: "status", dryRun: call.dryRun } as const;
  await deps.store.patch(VIRTUAL_MACHINES, call, { type: "merge", fields }, options);
}

async function writeRunState(deps: Deps, plan: AcceptedPlan, call: Call): Promise<void> {
  const { dryRun } = call;
  if (plan.vmiOperations !== undefined) {
    const patch = { type: "json", operations: plan.vmiOperations } as const;
    await deps.store.patch(VIRTUAL_MACHINE_INSTANCES, call, patch, { dryRun });
  }
  switch (plan.kind) {
    case "patchVm": {
      await writeStatus(deps, plan, call);
      const patch = { type: "json", operations: plan.operations } as const;
      await deps.store.patch(VIRTUAL_MACHINES, call, patch, { dryRun });
      return;
    }
    case "requestFromController":
      await writeStatus(deps, plan, call);
      return;
    case "deleteVmi":
      await writeStatus(deps, plan, call);
      if (!dryRun) await deps.store.delete(VIRTUAL_MACHINE_INSTANCES, call, { uid: plan.uid });
      return;
    case "shortenGracePeriod":
  }
}

interface RunStateChange {
  readonly parse: (body: unknown) => Parsed<RunStateOptions>;
  readonly plan: (facts: RunStateFacts) => RunStatePlan;
}

function findMacsInUse(deps: Deps, call: Call, vm: VirtualMachine): readonly FieldProblem[] {
  const { namespace, name } = call;
  const { spec } = vm.spec.template;
  const check = { namespace, name, spec, old: undefined, base: "spec.template.spec" };
  return listMacConflictCauses(deps, check).map(({ field, message }) => ({ field, message }));
}

async function tryRunState(
  deps: Deps,
  call: Call,
  plan: (facts: Omit<RunStateFacts, "options">) => RunStatePlan,
): Promise<Answer> {
  const objectRef = { type: VIRTUAL_MACHINES, name: call.name };
  const facts = await findVmWithVmi(deps.store, call);
  if (facts === undefined) return toNotFoundAnswer(objectRef);
  const expansion = await expandVm(deps.store, facts.vm);
  const macsInUse = findMacsInUse(deps, call, expansion.vm);
  const planned = plan({ ...facts, expansion, macsInUse, config: deps.networkConfig() });
  if (planned.kind === "refused") return toRefusalAnswer(planned.refusal, objectRef);
  await writeRunState(deps, planned, call);
  const vm = `${call.namespace}/${call.name}`;
  if (!call.dryRun) deps.log.info(planned.message, { vm, user: call.user.name });
  return toAcceptedAnswer(planned.message);
}

function changeRunState(deps: Deps, call: Call, change: RunStateChange): Promise<Answer> {
  const objectRef = { type: VIRTUAL_MACHINES, name: call.name };
  const parsed = change.parse(call.body);
  if (!parsed.ok) return Promise.resolve(toRefusalAnswer(parsed.refusal, objectRef));
  const plan = (facts: RunStateFacts): RunStatePlan =>
    change.plan({ ...facts, options: parsed.value });
  return deps.mutex.runExclusive(`${call.namespace}/${call.name}`, () =>
    retryOnConflict(() => tryRunState(deps, call, plan), deps, objectRef),
  );
}

/** Starts the VM. Responds with 202; with 409 if the guest already runs or the run strategy starts it; with 422 if the VM cannot start. */
export function start(deps: Deps): CallHandler {
  return (call) => changeRunState(deps, call, { parse: parseStartBody, plan: planStart });
}

/** Stops the VM or cancels a pending start. Responds with 202, or with 409 if there is nothing to stop. */
export function stop(deps: Deps): CallHandler {
  return (call) => changeRunState(deps, call, { parse: parseStopBody, plan: planStop });
}

/** Restarts the VM. Responds with 202; with 409 if no guest runs; with 422 if the VM cannot start again. */
export function restart(deps: Deps): CallHandler {
  return (call) => changeRunState(deps, call, { parse: parseRestartBody, plan: planRestart });
}

const NAME_SUFFIX_BYTES = 5;

function buildMigration(
  { namespace }: Call,
  spec: VirtualMachineInstanceMigration["spec"],
  { randomBytes }: Pick<Deps, "randomBytes">,
): VirtualMachineInstanceMigration {
  const type = VIRTUAL_MACHINE_INSTANCE_MIGRATIONS;
  const suffix = Buffer.from(randomBytes(NAME_SUFFIX_BYTES)).toString("hex");
  // The prefix is the same as KubeVirt's. Source: KubeVirt MigrateVMRequestHandler, generateName.
  const metadata = { name: `kubevirt-migrate-vm-${suffix}`, namespace };
  return { apiVersion: apiVersionOf(type), kind: type.kind, metadata, spec };
}

/**
 * Creates a migration. Responds with 202; with 404 if the VM is missing; with 409 if the VM is not running; with 400 if the
 * body is invalid or the guest cannot migrate.
 */
export function migrate(deps: Deps): CallHandler {
  return async (call) => {
    const objectRef = { type: VIRTUAL_MACHINES, name: call.name };
    const parsed = parseMigrateBody(call.body);
    if (!parsed.ok) return toRefusalAnswer(parsed.refusal, objectRef);
    const vmWithVmi = await findVmWithVmi(deps.store, call);
    if (vmWithVmi === undefined) return toNotFoundAnswer(objectRef);
    const plan = planMigrate(vmWithVmi.vmi, parsed.value);
    if (plan.kind === "refused") return toRefusalAnswer(plan.refusal, objectRef);
    const migration = buildMigration(call, plan.spec, deps);
    const { dryRun } = call;
    await deps.store.create(VIRTUAL_MACHINE_INSTANCE_MIGRATIONS, migration, { dryRun });
    return toAcceptedAnswer(plan.message);
  };
}

const EVACUATION_PATH = "/status/evacuationNodeName";

async function cancelEvacuation(deps: Deps, kind: NicTarget["kind"], call: Call): Promise<Answer> {
  const objectRef = buildTargetRef(kind, call);
  const target = await observeTarget(deps.store, kind, call);
  if (target === undefined) return toNotFoundAnswer(objectRef);
  if (target.vmi === undefined) return toNotFoundAnswer(buildTargetRef("vmi", call));
  const object = `VMI ${call.namespace}/${call.name}`;
  const node = target.vmi.status?.evacuationNodeName;
  if (node === undefined) return toOkAnswer(`${object} is not being evacuated`);
  const operations = [
    { op: "test", path: EVACUATION_PATH, value: node },
    { op: "remove", path: EVACUATION_PATH },
  ] as const;
  const options = { subresource: "status", dryRun: call.dryRun } as const;
  await deps.store.patch(VIRTUAL_MACHINE_INSTANCES, call, { type: "json", operations }, options);
  return toOkAnswer(`the evacuation of ${object} from node ${node} was canceled`);
}

/** Cancels an evacuation, but does not abort a running migration. Source: KubeVirt pkg/virt-api/rest/evacuate_cancel.go. */
export function evacuateCancel(deps: Deps, kind: NicTarget["kind"]): CallHandler {
  return (call) => {
    const objectRef = buildTargetRef(kind, call);
    const body = readMembers(call.body);
    if (!body.ok) return Promise.resolve(toRefusalAnswer(body.refusal, objectRef));
    return retryOnConflict(() => cancelEvacuation(deps, kind, call), deps, objectRef);
  };
}
