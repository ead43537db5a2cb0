// SPDX-License-Identifier: Apache-2.0
// Which ports are meant? Source: KubeVirt virtctl port-forward, [protocol/]localPort[:targetPort].
import { AppError } from "@patchbay/core/errors";

/** A local port and the guest's. */
export interface PortPair {
  /** 0 takes a free one. */
  readonly local: number;
  readonly remote: number;
}

const PORT_MAX = 65_535;
const PAIR = /^(?:tcp\/)?(\d+)(?::(\d+))?$/;

function parsePair(text: string): PortPair | undefined {
  const [, first, second = first] = PAIR.exec(text) ?? [];
  const [local, remote] = [Number(first), Number(second)];
  const isPort = Number.isInteger(remote) && remote >= 1 && Math.max(local, remote) <= PORT_MAX;
  return isPort ? { local, remote } : undefined;
}

/**
 * Reads them. With `isOne` there must be one alone.
 * @throws AppError with FLAG_INVALID that names each that is none
 */
export function parsePorts(texts: readonly string[], isOne: boolean): readonly PortPair[] {
  const wrong = texts.filter((text) => parsePair(text) === undefined);
  if (wrong.length > 0) {
    const reason = `${wrong.join(", ")}: a port is LOCAL:REMOTE or one number from 1 to 65535, over TCP`;
    throw new AppError("FLAG_INVALID", { flag: "<port...>", reason });
  }
  if (isOne && texts.length !== 1) {
    throw new AppError("FLAG_INVALID", { flag: "--stdio", reason: "it takes one port" });
  }
  return texts.flatMap((text) => parsePair(text) ?? []);
}
