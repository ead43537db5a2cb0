// SPDX-License-Identifier: Apache-2.0
// Gives an attachment a device of those that the kubelet has given to its pod. Source: Multus, k8sclient and conf.go.
import { names } from "@patchbay/api";
import {
  deviceIn,
  hasCapability,
  withDevice,
  type JournalDevice,
  type JournalRow,
} from "@patchbay/cni";
import {
  AppError,
  chooseDevice,
  isAppError,
  mayHaveDevice,
  type DeviceRequest,
  type HeldDevice,
  type WantedAttachment,
} from "@patchbay/core";
import { parseKey } from "@patchbay/kube";
import type { AttachmentRequest, Sandbox } from "@patchbay/core/ports";
import type { Deps } from "../../../deps.ts";
import type { PodFacts } from "../observe.ts";
import { deviceOfRow } from "./owned-row.ts";

/** Capability whose value is the file that tells of the device. Source: NPWG device information 1.1.0 section 5. */
const INFO_FILE = "CNIDeviceInfoFile";

/** What an attachment asks of devices; undefined: nothing. */
function deviceRequestOf(
  { network, selection }: Pick<WantedAttachment, "network" | "selection">,
  { nads }: Pick<Deps, "nads">,
): DeviceRequest | undefined {
  const { [names.RESOURCE_NAME_ANNOTATION]: resource = "" } =
    nads.find(parseKey(network))?.metadata.annotations ?? {};
  const { deviceID: id } = selection;
  if (resource === "" && typeof id !== "string") return undefined;
  return { ...(resource !== "" && { resource }), ...(typeof id === "string" && { id }) };
}

/** Of the same sandbox: what a former one had is free, though its DEL may still have to come. */
async function listHeld(
  facts: PodFacts,
  sandbox: Sandbox,
  deps: Deps,
): Promise<readonly HeldDevice[]> {
  const rows = (await deps.journal.list(facts.uid)).filter(
    ({ request, state }) => request.containerId === sandbox.id && state !== "removed",
  );
  const own = rows.flatMap((row) => deviceOfRow(row) ?? []);
  const others = facts.attachments.foreign.map(async ({ interfaceName: holder }) => {
    const cached = await deps.resultCache.find(sandbox.id, holder);
    const id = cached === undefined ? undefined : deviceIn(cached.config);
    return id === undefined ? [] : [{ id, holder }];
  });
  return [...own, ...(await Promise.all(others)).flat()];
}

/** Devices that elements of the annotation name, but for the one itself. */
function listNamed(
  { selection }: Pick<WantedAttachment, "selection">,
  { attachments: { networks } }: PodFacts,
): readonly string[] {
  if (!networks.ok) return [];
  return networks.elements.flatMap((element) =>
    element !== selection && typeof element.deviceID === "string" ? [element.deviceID] : [],
  );
}

/**
 * What the choice of a device rests on that changes: whoever found none looks again then. What goes, goes before anything
 * comes; one that cannot be removed frees its device later.
 */
export function deviceCircumstances(
  wanted: WantedAttachment,
  facts: PodFacts,
  deps: Pick<Deps, "nads">,
): unknown {
  const request = deviceRequestOf(wanted, deps);
  if (request === undefined) return undefined;
  const { owned, networks } = facts.attachments;
  const stuck = owned.filter(({ row, hasDevice }) => hasDevice && row.failedRemovals !== undefined);
  return [request, networks, stuck.map(({ interfaceName }) => interfaceName)];
}

/** A request, and the device that it gives to its plugins. */
export interface DeviceOfRequest {
  readonly request: AttachmentRequest;
  readonly device?: JournalDevice;
}

function infoPathOf(
  network: string,
  { containerId, interfaceName }: AttachmentRequest,
  { deviceInfo }: Pick<Deps, "deviceInfo">,
): string {
  return deviceInfo.pathOf({ network, containerId, interfaceName });
}

/** A plugin that says so tells of what it makes itself, a socket for example: no device plugin has a part in it. */
function withInfoFile(
  { network }: Pick<WantedAttachment, "network">,
  request: AttachmentRequest,
  deps: Pick<Deps, "deviceInfo">,
): DeviceOfRequest {
  if (!hasCapability(request.config, INFO_FILE)) return { request };
  const infoPath = infoPathOf(network, request, deps);
  const capabilityArgs = { ...request.capabilityArgs, [INFO_FILE]: infoPath };
  return { device: { infoPath }, request: { ...request, capabilityArgs } };
}

/** The pod's devices; none without an answer of the kubelet where the pod requests none. */
async function listGiven(
  asked: DeviceRequest,
  facts: PodFacts,
  { podDevices }: Pick<Deps, "podDevices">,
): Promise<ReadonlyMap<string, readonly string[]>> {
  const { namespace = "", name } = parseKey(facts.key);
  try {
    return await podDevices.find({ namespace, name });
  } catch (error) {
    if (!isAppError(error, "DEVICES_UNKNOWN") || mayHaveDevice(asked, facts.pod)) throw error;
    return new Map();
  }
}

/**
 * The request with a device, where the network or the element asks for one: in each plugin's configuration, and as values of
 * the capabilities that are declared for it.
 * @throws AppError with CNI_NO_DEVICE, DEVICES_UNKNOWN
 */
export async function withDeviceOf(
  wanted: Pick<WantedAttachment, "network" | "selection">,
  what: {
    readonly request: AttachmentRequest;
    readonly facts: PodFacts;
    readonly sandbox: Sandbox;
  },
  deps: Deps,
): Promise<DeviceOfRequest> {
  const { request, facts, sandbox } = what;
  const asked = deviceRequestOf(wanted, deps);
  if (asked === undefined) return withInfoFile(wanted, request, deps);
  const { network } = wanted;
  const choice = chooseDevice(asked, {
    given: await listGiven(asked, facts, deps),
    held: await listHeld(facts, sandbox, deps),
    named: listNamed(wanted, facts),
  });
  if (!choice.ok) throw new AppError("CNI_NO_DEVICE", { network, reason: choice.reason });
  if (choice.id === undefined) return withInfoFile(wanted, request, deps);
  const { id, resource } = choice;
  const { config, capabilityArgs } = request;
  const infoPath = infoPathOf(network, request, deps);
  return {
    device: { id, infoPath, ...(resource !== undefined && { resource }) },
    request: {
      ...request,
      config: withDevice(config, id),
      capabilityArgs: { ...capabilityArgs, deviceID: id, [INFO_FILE]: infoPath },
    },
  };
}

/** Puts what is known of the device where the plugins of ADD find it. */
export async function offerDeviceInfo({ device }: JournalRow, deps: Deps): Promise<void> {
  if (device?.id === undefined) return;
  const { id, infoPath, resource } = device;
  await deps.deviceInfo.prepare(infoPath, { id, ...(resource !== undefined && { resource }) });
}

/** The row with what is told of its device after ADD. */
export async function withDeviceInfo(row: JournalRow, deps: Deps): Promise<JournalRow> {
  if (row.device === undefined) return row;
  const deviceInfo = await deps.deviceInfo.read(row.device.infoPath);
  return deviceInfo === undefined ? row : { ...row, deviceInfo };
}

/** After DEL; what the device plugin tells stays. */
export async function dropDeviceInfo({ device }: JournalRow, deps: Deps): Promise<void> {
  if (device !== undefined) await deps.deviceInfo.remove(device.infoPath);
}
