// SPDX-License-Identifier: Apache-2.0
// Packet captures at the tap of a guest's interface. Bytes and time are limited, and an event of the VMI records each capture.
import { Duplex } from "node:stream";
import type { VirtualMachineInstance } from "@patchbay/api";
import { AppError, SHARE_KEYS, SharePool, tryAcquireAll, type Release } from "@patchbay/base";
import { findByName, ifacesOf } from "@patchbay/core/nics";
import { PacketLimiter, type CaptureRequest } from "@patchbay/core/guest";
import { printKey } from "@patchbay/kube";
import type {
  LauncherPod,
  NetnsHandle,
  ObjectKey,
  PacketCapture,
  PacketCaptures,
} from "@patchbay/core/interfaces";
import type { Deps } from "../deps.ts";
import { findGuest } from "./find-guest.ts";

/** Opens a packet capture for a guest on this node. Packets wait until the caller reads the returned stream. */
export type OpenCapture = (key: ObjectKey, request: CaptureRequest) => Promise<Duplex>;

/** Limits on the captures of a namespace and of the node. Each capture is a process that receives every packet of a link. */
const CAPTURE_LIMITS = { max: 8, share: 4 };

/** Stream of captured packets with backpressure. It discards data that the client sends. */
class CaptureStream extends Duplex {
  #onRead: (() => void) | undefined;

  override _read(): void {
    this.#onRead?.();
    this.#onRead = undefined;
  }

  override _write(_chunk: Buffer, _encoding: string, done: () => void): void {
    done();
  }

  async pushWhenReady(bytes: Uint8Array): Promise<void> {
    if (this.destroyed || this.readableEnded || this.push(bytes)) return;
    const { promise, resolve } = Promise.withResolvers<undefined>();
    this.#onRead = () => {
      resolve(undefined);
    };
    this.once("close", this.#onRead);
    await promise;
  }
}

function findTap(vmi: VirtualMachineInstance, iface: string, { taps }: Deps): string {
  const tap = taps.get(vmi.metadata.uid ?? "")?.get(iface);
  if (tap !== undefined) return tap;
  const isDeclared = findByName(ifacesOf(vmi.spec), iface) !== undefined;
  const reason = isDeclared
    ? "it has no tap: it is not plugged, or its packets do not pass the kernel"
    : "the VM has no such interface";
  const { namespace = "", name } = vmi.metadata;
  throw new AppError("CAPTURE_NOT_POSSIBLE", { iface, vmi: `${namespace}/${name}`, reason });
}

function recordEvent(
  vmi: VirtualMachineInstance,
  { options, user: by }: CaptureRequest,
  { events }: Pick<Deps, "events">,
): void {
  const { interface: iface, filter, seconds } = options;
  const packets = filter === "" ? "all packets" : `the packets of "${filter}"`;
  const message = `${by} captures ${packets} of interface ${iface}, for at most ${String(seconds)} s`;
  events.record(vmi, { type: "Normal", reason: "PacketsCaptured", message, about: iface });
}

interface CaptureSource {
  readonly captures: PacketCaptures;
  readonly netns: NetnsHandle;
  readonly link: string;
}

async function startCapture(
  stream: CaptureStream,
  { options }: CaptureRequest,
  { captures, netns, link }: CaptureSource,
): Promise<PacketCapture> {
  const packets = new PacketLimiter(options.bytes);
  let isFull = false;
  const onBytes = async (bytes: Uint8Array): Promise<void> => {
    if (isFull) return;
    const accepted = packets.add(bytes);
    ({ isFull } = accepted);
    for (const chunk of accepted.bytes) await stream.pushWhenReady(chunk);
    if (isFull) stream.push(null);
  };
  const capture = await captures.start(netns, { link, filter: options.filter }, onBytes);
  void capture.ended.then(() => {
    if (!isFull) stream.push(null);
    isFull = true;
  });
  return capture;
}

/**
 * Creates the function that opens captures, at most one for each interface, and within {@link CAPTURE_LIMITS}. The function throws
 * AppError with KUBE_NOT_FOUND, GUEST_STREAM_IN_USE, CAPTURE_NOT_POSSIBLE, LAUNCHER_UNREACHABLE, and the errors of sessions and captures.
 */
export function createOpenCapture(
  deps: Deps,
  captures: PacketCaptures,
  wake: (key: string) => void,
): OpenCapture {
  const namespaces = new SharePool(CAPTURE_LIMITS);
  const ifaces = new SharePool({ max: CAPTURE_LIMITS.max, share: 1 });
  const claim = ({ uid, namespace }: LauncherPod, iface: string, vmi: string): Release => {
    const release = tryAcquireAll([
      [ifaces, SHARE_KEYS.object({ namespace: uid, name: iface })],
      [namespaces, SHARE_KEYS.namespace(namespace)],
    ]);
    if (release === undefined)
      throw new AppError("GUEST_STREAM_IN_USE", { vmi, stream: "capture" });
    return release;
  };
  return async (key, request) => {
    const { vmi, pod, listener } = findGuest(key, deps, wake);
    const { interface: iface, seconds } = request.options;
    const link = findTap(vmi, iface, deps);
    const release = claim(pod, iface, printKey(key));
    const stream = new CaptureStream();
    const closed = new AbortController();
    stream
      .on("error", () => stream.destroy())
      .once("close", () => {
        closed.abort(new Error("the reader has disconnected"));
        release();
      });
    try {
      // Opening the session verifies that the pod with the UID in the VMI's status is the VMI's launcher.
      const capture = await deps.sessions.use(pod, listener, ({ launcher: { netns } }) =>
        startCapture(stream, request, { captures, netns, link }),
      );
      recordEvent(vmi, request, deps);
      const stop = (): Promise<void> => capture.stop();
      void deps.clock.sleep(seconds * 1000, closed.signal).then(stop, stop);
      return stream;
    } catch (error) {
      release(); // Frees the slot without waiting for the close event, so that the client can retry immediately.
      stream.destroy();
      throw error;
    }
  };
}
