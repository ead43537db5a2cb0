// SPDX-License-Identifier: Apache-2.0
// Finds the vhost-user sockets of interfaces, and explains why a device cannot use its socket.
import {
  names,
  type Attachment,
  type BindingRegistry,
  type VirtualMachineInstance,
} from "@patchbay/api";
import { parseVhostUserInfo, type VhostUserInfo } from "@patchbay/api/annotations";
import { resolveBindingIn } from "../bindings/resolve-binding.ts";
import type { ReasonMessage } from "../../reasons/messages.ts";
import { ifacesOf } from "../nics.ts";

export interface VhostSocket {
  readonly podInterfaceName: string;
  /** Path on the node and in the launcher: {@link names.VHOST_USER_DIR}/DIRECTORY/NAME. */
  readonly path: string;
}

export interface ObservedSocket {
  /** `ready`: the launcher can open the socket. `found`: the socket exists, but the launcher has no symbolic link to it. */
  readonly state: "ready" | "found" | "missing" | "refused";
  readonly reason?: string;
  /** Identifies the socket's inode. Changes when the socket is recreated. Unset if the socket does not exist. */
  readonly id?: number;
}

export type SocketReason = "BackendMissing" | "BackendRefused" | "PortSecurityNotKept";

const DIRECTORY_AND_NAME = /^\/[A-Za-z0-9][\w.-]{0,63}\/[A-Za-z0-9][\w.-]{0,63}$/;

/** Checks whether the path is in a directory that a launcher can mount. */
function isInPodDirectory({ path }: VhostUserInfo): boolean {
  return (
    path.startsWith(names.VHOST_USER_DIR) &&
    DIRECTORY_AND_NAME.test(path.slice(names.VHOST_USER_DIR.length))
  );
}

function refuse(message: string): ReasonMessage<SocketReason> {
  return { reason: "BackendRefused", message };
}

function findDeviceInfoProblem(
  info: VhostUserInfo | undefined,
): ReasonMessage<SocketReason> | undefined {
  if (info === undefined) {
    return refuse(
      "the network's plugin reported no socket (device-info of type vhost-user in the pod's network-status); use a network whose plugin creates sockets",
    );
  }
  const { mode, path } = info;
  if (mode !== "client") {
    return refuse(
      `the network's plugin wants QEMU to listen (mode "${mode}"), which would block the guest until the dataplane connects; let the dataplane listen (mode "client")`,
    );
  }
  if (isInPodDirectory(info)) return undefined;
  return refuse(
    `the socket ${JSON.stringify(path)} is not in a directory below ${names.VHOST_USER_DIR}, which is all that launchers share`,
  );
}

export function findSocketProblem(
  attachment: Attachment | undefined,
  observed: ObservedSocket | undefined,
): ReasonMessage<SocketReason> | undefined {
  if (attachment?.state !== "Attached") return undefined;
  const info = parseVhostUserInfo(attachment.deviceInfo);
  return findDeviceInfoProblem(info) ?? findObservedSocketProblem(info?.path ?? "", observed);
}

function findObservedSocketProblem(
  path: string,
  observed: ObservedSocket | undefined,
): ReasonMessage<SocketReason> | undefined {
  if (observed?.state === "ready" || observed?.state === "found") return undefined;
  if (observed?.state === "refused") return refuse(`${path}: ${observed.reason ?? ""}`);
  return {
    reason: "BackendMissing",
    message: `there is no socket ${path}: the dataplane does not run, or has no port for it; the device is plugged, or plugged again, as soon as there is one`,
  };
}

export function listVhostSockets(
  { spec, status }: Pick<VirtualMachineInstance, "spec" | "status">,
  bindings: BindingRegistry,
): readonly VhostSocket[] {
  const vhostUserIfaces = new Set(
    ifacesOf(spec)
      .filter((iface) => resolveBindingIn(spec, iface, bindings).kind === "vhostuser")
      .map(({ name }) => name),
  );
  return (status?.attachments ?? []).flatMap((attachment): readonly VhostSocket[] => {
    const { name, podInterfaceName, deviceInfo } = attachment;
    const info = parseVhostUserInfo(deviceInfo);
    if (
      !vhostUserIfaces.has(name) ||
      info === undefined ||
      findDeviceInfoProblem(info) !== undefined
    )
      return [];
    return [{ podInterfaceName, path: info.path }];
  });
}

/** Reported if port security is requested for a vhost-user NIC, whose frames bypass the kernel and thus Patchbay's filters. */
export const PORT_SECURITY_NOT_ENFORCED: ReasonMessage<SocketReason> = {
  reason: "PortSecurityNotKept",
  message:
    "the cluster filters guests' frames (spec.configuration.network.portSecurity of the KubeVirt object), which is not possible for vhost-user; use another binding, or set the interface's portSecurity.mode to Off if the cluster allows it",
};

export const DATAPLANE_GROUP_FLAG = {
  flags: "--dataplane-group <gid>",
  description:
    "group ID of a vhost-user dataplane that is not root: its members may create sockets in the pods' directories, and sockets of other groups are rejected; 0 if the dataplane is root",
} as const;

/** Largest valid group ID. Source: linux/uidgid.h, which reserves the next number. */
const GID_MAX = 2 ** 32 - 2;

/** Returns why the GID is invalid; undefined if it is valid. 0 means that only root creates sockets. */
export function checkDataplaneGroup(gid: number): string | undefined {
  if (!Number.isInteger(gid) || gid < 0 || gid > GID_MAX) return "it must be the number of a group";
  return gid === names.LAUNCHER_UID
    ? "it is the launchers' own, each of which could make sockets for others then"
    : undefined;
}
