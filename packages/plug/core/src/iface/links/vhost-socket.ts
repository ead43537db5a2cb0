// SPDX-License-Identifier: Apache-2.0
// Which socket is an iface's that speaks vhost-user, and what keeps its device from using it?
import {
  names,
  vhostUserOf,
  type Attachment,
  type BindingRegistry,
  type VhostUserInfo,
  type VirtualMachineInstance,
} from "@patchbay/api";
import { bindingIn } from "../../bindings/resolve-binding.ts";
import type { Told } from "../../reasons/words.ts";
import { ifacesOf } from "../../spec/nics.ts";

/** A socket that a plugin has named. */
export interface VhostSocket {
  /** NIC in the pod whose place it has. */
  readonly podInterfaceName: string;
  /** On the node and in the launcher: {@link names.VHOST_USER_DIR}/DIRECTORY/NAME. */
  readonly path: string;
}

/** What lies at the path of a socket. */
export interface SeenSocket {
  /** `ready`: the launcher can use it by the name that its domain has; `found`: that is still to be brought about. */
  readonly state: "ready" | "found" | "missing" | "refused";
  /** Why it is refused. */
  readonly reason?: string;
  /** Tells one that was made anew from the one before; absent where there is none. */
  readonly id?: number;
}

/** Why a socket cannot be used. */
export type SocketReason = "BackendMissing" | "BackendRefused" | "PortSecurityNotKept";

/** Two names that are no way out. */
const BELOW = /^\/[A-Za-z0-9][\w.-]{0,63}\/[A-Za-z0-9][\w.-]{0,63}$/;

/** Whether it is one of a pod's directory, of which the launcher has the whole. */
function isOfPod({ path }: VhostUserInfo): boolean {
  return (
    path.startsWith(names.VHOST_USER_DIR) && BELOW.test(path.slice(names.VHOST_USER_DIR.length))
  );
}

function refuse(message: string): Told<SocketReason> {
  return { reason: "BackendRefused", message };
}

/** What is wrong with the words of the plugin; undefined: nothing. */
function wordProblem(info: VhostUserInfo | undefined): Told<SocketReason> | undefined {
  if (info === undefined) {
    return refuse(
      "the network's plugin told of no socket (device-info of type vhost-user in the pod's network-status); use a network whose plugin makes sockets",
    );
  }
  const { mode, path } = info;
  if (mode !== "client") {
    return refuse(
      `the network's plugin wants QEMU to listen (mode "${mode}"), which would wait for the dataplane with its guest standing still, or never started; let the dataplane listen (mode "client")`,
    );
  }
  if (isOfPod(info)) return undefined;
  return refuse(
    `the socket ${JSON.stringify(path)} is not in a directory below ${names.VHOST_USER_DIR}, which is all that launchers share`,
  );
}

/** What keeps a device from using the socket of an attachment; undefined: nothing. */
export function socketProblem(
  attachment: Attachment | undefined,
  seen: SeenSocket | undefined,
): Told<SocketReason> | undefined {
  if (attachment?.state !== "Attached") return undefined;
  const info = vhostUserOf(attachment.deviceInfo);
  return wordProblem(info) ?? lookProblem(info?.path ?? "", seen);
}

function lookProblem(path: string, seen: SeenSocket | undefined): Told<SocketReason> | undefined {
  if (seen?.state === "ready" || seen?.state === "found") return undefined;
  if (seen?.state === "refused") return refuse(`${path}: ${seen.reason ?? ""}`);
  return {
    reason: "BackendMissing",
    message: `there is no socket ${path}: the dataplane does not run, or has no port for it; the device is plugged, or plugged again, as soon as there is one`,
  };
}

/** The sockets of ifaces that speak vhost-user, as far as plugins have named some that can be used. */
export function vhostSocketsOf(
  { spec, status }: Pick<VirtualMachineInstance, "spec" | "status">,
  bindings: BindingRegistry,
): readonly VhostSocket[] {
  const speakers = new Set(
    ifacesOf(spec)
      .filter((iface) => bindingIn(spec, iface, bindings).kind === "vhostuser")
      .map(({ name }) => name),
  );
  return (status?.attachments ?? []).flatMap((attachment): readonly VhostSocket[] => {
    const { name, podInterfaceName, deviceInfo } = attachment;
    const info = vhostUserOf(deviceInfo);
    if (!speakers.has(name) || info === undefined || wordProblem(info) !== undefined) return [];
    return [{ podInterfaceName, path: info.path }];
  });
}

/** The cluster holds guests to what they may send, which cannot be done where frames do not pass the pod. */
export const PORT_SECURITY_NOT_KEPT: Told<SocketReason> = {
  reason: "PortSecurityNotKept",
  message:
    "the cluster judges what guests send (spec.configuration.network.portSecurity of the KubeVirt object), which cannot be done for vhost-user; use another binding, or let the interface say portSecurity.mode Off where the cluster lets it",
};
