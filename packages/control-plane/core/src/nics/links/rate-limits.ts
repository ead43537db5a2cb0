// SPDX-License-Identifier: Apache-2.0
import type { BandwidthLimit, Iface } from "@patchbay/api";
import { frameBytes, parseBytes } from "@patchbay/api/values";
import type { ObservedWiring, RateLimit } from "../bindings/pod-wiring.ts";

/** Default duration of a burst at the average rate. If a kernel timer is delayed for longer, the bucket overflows and tokens are lost. */
const BURST_SECONDS = 0.05;
/** Duration of a burst at the peak rate. With a shorter burst, the kernel would need a timer for each frame. */
const PEAK_BURST_SECONDS = 0.001;
/** Longest wait of a frame in the queue at the average rate. Determines the queue's size, at least {@link QUEUED_FRAMES_MIN} frames. */
const QUEUE_SECONDS = 0.1;
const QUEUED_FRAMES_MIN = 10;
/** Source: linux/pkt_sched.h, sizes in struct tc_tbf_qopt have 32 bits. */
const BYTES_MAX = 0xffff_ffff;

function clampBytes(bytes: number, min: number): number {
  return Math.min(BYTES_MAX, Math.max(min, Math.ceil(bytes)));
}

/** Plans the limit of one direction. Raises a burst to the size of a frame, because a smaller burst would drop every full frame. */
function planRateLimit(limit: BandwidthLimit | undefined, mtu: number): RateLimit | undefined {
  const average = parseBytes(limit?.average);
  if (limit === undefined || average === undefined) return undefined;
  const [peak, burst = average * BURST_SECONDS] = [limit.peak, limit.burst].map(parseBytes);
  const frame = frameBytes(mtu);
  const burstBytes = clampBytes(burst, frame);
  return {
    average: { bytesPerSecond: average, burstBytes },
    ...(peak !== undefined && {
      peak: { bytesPerSecond: peak, burstBytes: clampBytes(peak * PEAK_BURST_SECONDS, frame) },
    }),
    queueBytes: clampBytes(average * QUEUE_SECONDS + burstBytes, frame * QUEUED_FRAMES_MIN),
  };
}

export function planRateLimits(
  { bandwidth }: Pick<Iface, "bandwidth">,
  mtu: number,
): ObservedWiring["limits"] {
  const [inbound, outbound] = [bandwidth?.inbound, bandwidth?.outbound].map((limit) =>
    planRateLimit(limit, mtu),
  );
  if (inbound === undefined && outbound === undefined) return undefined;
  return {
    ...(inbound === undefined ? {} : { inbound }),
    ...(outbound === undefined ? {} : { outbound }),
  };
}
