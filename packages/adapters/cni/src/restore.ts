// SPDX-License-Identifier: Apache-2.0
// Gives a pod NIC back what it had before DEL: the guest owned its addresses meanwhile, but plugins look for them on the
// NIC to find what they must undo (bridge removes masquerading rules by them); and a card that goes back to the machine
// (host-device) goes with its own MAC, not the guest's.
import { normalizeMac } from "@patchbay/api";
import type { AttachmentRequest, CniResult, ProcessRunner } from "@patchbay/core/ports";

/** Words of a batch: nothing else may be in them. */
const CIDR = /^[0-9A-Fa-f.:]+\/\d{1,3}$/;
/** An `ip` command in a namespace takes milliseconds. */
const TIMEOUT_MS = 5_000;

const MAC = /^[0-9A-Fa-f]{2}(:[0-9A-Fa-f]{2}){5}$/;

interface Nic {
  readonly index: number;
  readonly mac: string;
}

/** What the result says of the NIC that was asked for. */
function nicOf(result: CniResult, interfaceName: string): Nic {
  const nics = result.interfaces ?? [];
  const index = nics.findIndex(
    ({ name, sandbox }) => name === interfaceName && sandbox !== undefined && sandbox !== "",
  );
  return { index, mac: nics[index]?.mac ?? "" };
}

function addressesOf(result: CniResult, index: number): readonly string[] {
  return (result.ips ?? [])
    .filter(({ interface: owner }) => owner === undefined || owner === index)
    .map(({ address }) => address)
    .filter((address) => CIDR.test(address));
}

/** A NIC whose plugin did not set the MAC that was asked for got it from somebody else. */
function isMacForeign({ args }: AttachmentRequest, { mac }: Nic): boolean {
  const asked = args.find(([key]) => key === "MAC")?.[1];
  return asked !== undefined && MAC.test(mac) && normalizeMac(asked) !== normalizeMac(mac);
}

/**
 * Equivalent to: `ip link set NIC down address MAC` where the plugin's own differs from the one that was asked for, and
 * `ip address replace ADDRESS dev NIC` for each address of the result; a NIC that is gone is left alone.
 */
export async function restoreNic(
  runner: ProcessRunner,
  request: AttachmentRequest,
  result: CniResult,
): Promise<void> {
  const { netnsPath, interfaceName: name } = request;
  const nic = nicOf(result, name);
  const commands = [
    ...(isMacForeign(request, nic) ? [`link set ${name} down address ${nic.mac}\n`] : []),
    ...addressesOf(result, nic.index).map((address) => `address replace ${address} dev ${name}\n`),
  ];
  if (netnsPath === undefined || commands.length === 0) return;
  // What it cannot do, because link or namespace went, DEL does not need.
  await runner.run({
    argv: ["nsenter", `--net=${netnsPath}`, "ip", "-force", "-batch", "-"],
    stdin: commands.join(""),
    timeoutMs: TIMEOUT_MS,
  });
}
