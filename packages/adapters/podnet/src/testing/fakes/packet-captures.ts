// SPDX-License-Identifier: Apache-2.0
import { AppError } from "@patchbay/base";
import type { CapturedLink, PacketCapture, PacketCaptures } from "@patchbay/core/interfaces";

/** {@link PacketCaptures} in memory, of packets that a test sends. */
export interface FakePacketCaptures extends PacketCaptures {
  /** Sends a packet through a link. */
  pass(link: string, packet: Uint8Array): Promise<void>;
  readonly running: readonly CapturedLink[];
  kill(): void;
}

/** Header of a capture file with Ethernet frames. Source: pcap-savefile(5) */
const HEADER = Buffer.from("d4c3b2a1020004000000000000000000000004000100000010000000", "hex");
const FILE_HEADER = HEADER.subarray(0, 24);
const PACKET_HEADER = 16;

function toRecord(packet: Uint8Array): Uint8Array {
  const record = Buffer.alloc(PACKET_HEADER + packet.length);
  record.writeUInt32LE(packet.length, 8);
  record.writeUInt32LE(packet.length, 12);
  record.set(packet, PACKET_HEADER);
  return record;
}

interface Running {
  readonly what: CapturedLink;
  readonly take: (bytes: Uint8Array) => void | Promise<void>;
  readonly end: (reason: string) => void;
}

/** Creates a fake pod with links. Its only valid filters are the empty one and `udp`. */
export function createFakePacketCaptures(links: readonly string[]): FakePacketCaptures {
  const running = new Set<Running>();
  const begin = async (what: CapturedLink, take: Running["take"]): Promise<PacketCapture> => {
    const { link, filter } = what;
    if (!["", "udp"].includes(filter)) {
      throw new AppError("CAPTURE_FILTER_INVALID", { filter, reason: "syntax error" });
    }
    if (!links.includes(link)) {
      throw new AppError("PODNET_CAPTURE_FAILED", { link, reason: "No such device exists" });
    }
    const { promise: ended, resolve } = Promise.withResolvers<string>();
    const capture: Running = {
      what,
      take,
      end: (reason) => {
        running.delete(capture);
        resolve(reason);
      },
    };
    running.add(capture);
    await take(FILE_HEADER);
    return {
      ended,
      stop: () => {
        capture.end("it was stopped");
        return Promise.resolve();
      },
    };
  };
  return {
    start: (_netns, what, take) => begin(what, take),
    killLeftovers: () => Promise.resolve(),
    pass: async (link, packet) => {
      for (const { what, take } of running) {
        if (what.link === link && what.filter === "") await take(toRecord(packet));
      }
    },
    get running() {
      return [...running].map(({ what }) => what);
    },
    kill: () => {
      for (const capture of running) capture.end("it was killed");
    },
  };
}
