// SPDX-License-Identifier: Apache-2.0
// Chooses a device of the pod for an attachment. Source: Multus, k8sclient and conf.go.
import { names } from "@patchbay/api";
import {
  findDeviceId,
  hasCapability,
  withDevice,
  type JournalDevice,
  type JournalRow,
} from "@patchbay/cni";
import { AppError, isAppError } from "@patchbay/base";
import {
  chooseDevice,
  mayHaveDevice,
  type DeviceRequest,
  type UsedDevice,
  type WantedAttachment,
} from "@patchbay/core/nics";
import { parseKey } from "@patchbay/kube";
import type { AttachmentRequest, Sandbox } from "@patchbay/core/interfaces";
import type { Deps } from "../../../deps.ts";
import type { PodFacts } from "../observe.ts";
import { readDevice } from "./owned-row.ts";

/** Capability whose value is the path of the device information file. Source: NPWG device information 1.1.0 section 5. */
const INFO_FILE = "CNIDeviceInfoFile";

function readDeviceRequest(
  { network, selection }: Pick<WantedAttachment, "network" | "selection">,
  { nads }: Pick<Deps, "nads">,
): DeviceRequest | undefined {
  const { [names.RESOURCE_NAME_ANNOTATION]: resource = "" } =
    nads.find(parseKey(network))?.metadata.annotations ?? {};
  const { deviceID: id } = selection;
  if (resource === "" && typeof id !== "string") return undefined;
  return { ...(resource !== "" && { resource }), ...(typeof id === "string" && { id }) };
}

/** Lists the devices that attachments of the current sandbox use. Devices of a former sandbox are free, even before its DEL. */
async function listUsedDevices(
  facts: PodFacts,
  sandbox: Sandbox,
  deps: Deps,
): Promise<readonly UsedDevice[]> {
  const rows = (await deps.journal.list(facts.uid)).filter(
    ({ request, state }) => request.containerId === sandbox.id && state !== "removed",
  );
  const ownDevices = rows.flatMap((row) => readDevice(row) ?? []);
  const foreignDevices = facts.attachments.foreign.map(async ({ interfaceName: holder }) => {
    const cached = await deps.resultCache.find(sandbox.id, holder);
    const id = cached === undefined ? undefined : findDeviceId(cached.config);
    return id === undefined ? [] : [{ id, holder }];
  });
  return [...ownDevices, ...(await Promise.all(foreignDevices)).flat()];
}

function listNamedDevices(
  { selection }: Pick<WantedAttachment, "selection">,
  { attachments: { networks } }: PodFacts,
): readonly string[] {
  if (!networks.ok) return [];
  return networks.elements.flatMap((element) =>
    element !== selection && typeof element.deviceID === "string" ? [element.deviceID] : [],
  );
}

/** Returns the inputs of the device choice. After a failure, the choice is repeated when these inputs change. */
export function buildDeviceInputs(
  wanted: WantedAttachment,
  facts: PodFacts,
  deps: Pick<Deps, "nads">,
): unknown {
  const request = readDeviceRequest(wanted, deps);
  if (request === undefined) return undefined;
  const { owned, networks } = facts.attachments;
  const failedDetaches = owned.filter(
    ({ row, hasDevice }) => hasDevice && row.failedRemovals !== undefined,
  );
  return [request, networks, failedDetaches.map(({ interfaceName }) => interfaceName)];
}

export interface RequestWithDevice {
  readonly request: AttachmentRequest;
  readonly device?: JournalDevice;
}

function findInfoPath(
  network: string,
  { containerId, interfaceName }: AttachmentRequest,
  { deviceInfo }: Pick<Deps, "deviceInfo">,
): string {
  return deviceInfo.pathOf({ network, containerId, interfaceName });
}

/** Adds the path of the device information file for plugins that write the file themselves. */
function withInfoFile(
  { network }: Pick<WantedAttachment, "network">,
  request: AttachmentRequest,
  deps: Pick<Deps, "deviceInfo">,
): RequestWithDevice {
  if (!hasCapability(request.config, INFO_FILE)) return { request };
  const infoPath = findInfoPath(network, request, deps);
  const capabilityArgs = { ...request.capabilityArgs, [INFO_FILE]: infoPath };
  return { device: { infoPath }, request: { ...request, capabilityArgs } };
}

/** Returns the pod's devices by resource. If the kubelet does not answer, returns an empty map for a pod that cannot have a device. */
async function listPodDevices(
  deviceRequest: DeviceRequest,
  facts: PodFacts,
  { podDevices }: Pick<Deps, "podDevices">,
): Promise<ReadonlyMap<string, readonly string[]>> {
  const { namespace = "", name } = parseKey(facts.key);
  try {
    return await podDevices.find({ namespace, name });
  } catch (error) {
    if (!isAppError(error, "DEVICES_UNKNOWN") || mayHaveDevice(deviceRequest, facts.pod))
      throw error;
    return new Map();
  }
}

/** Adds a device of the pod to `request` if the network or annotation requires one. @throws AppError with CNI_NO_DEVICE, DEVICES_UNKNOWN */
export async function addDevice(
  wanted: Pick<WantedAttachment, "network" | "selection">,
  target: {
    readonly request: AttachmentRequest;
    readonly facts: PodFacts;
    readonly sandbox: Sandbox;
  },
  deps: Deps,
): Promise<RequestWithDevice> {
  const { request, facts, sandbox } = target;
  const deviceRequest = readDeviceRequest(wanted, deps);
  if (deviceRequest === undefined) return withInfoFile(wanted, request, deps);
  const { network } = wanted;
  const choice = chooseDevice(deviceRequest, {
    allocated: await listPodDevices(deviceRequest, facts, deps),
    inUse: await listUsedDevices(facts, sandbox, deps),
    requestedElsewhere: listNamedDevices(wanted, facts),
  });
  if (!choice.ok) throw new AppError("CNI_NO_DEVICE", { network, reason: choice.reason });
  if (choice.id === undefined) return withInfoFile(wanted, request, deps);
  const { id, resource } = choice;
  const { config, capabilityArgs } = request;
  const infoPath = findInfoPath(network, request, deps);
  return {
    device: { id, infoPath, ...(resource !== undefined && { resource }) },
    request: {
      ...request,
      config: withDevice(config, id),
      capabilityArgs: { ...capabilityArgs, deviceID: id, [INFO_FILE]: infoPath },
    },
  };
}

export async function prepareDeviceInfo({ device }: JournalRow, deps: Deps): Promise<void> {
  if (device?.id === undefined) return;
  const { id, infoPath, resource } = device;
  await deps.deviceInfo.prepare(infoPath, { id, ...(resource !== undefined && { resource }) });
}

export async function withDeviceInfo(row: JournalRow, deps: Deps): Promise<JournalRow> {
  if (row.device === undefined) return row;
  const deviceInfo = await deps.deviceInfo.read(row.device.infoPath);
  return deviceInfo === undefined ? row : { ...row, deviceInfo };
}

/** Removes the device information file of the attachment. The file of the device plugin remains. */
export async function removeDeviceInfo({ device }: JournalRow, deps: Deps): Promise<void> {
  if (device !== undefined) await deps.deviceInfo.remove(device.infoPath);
}
