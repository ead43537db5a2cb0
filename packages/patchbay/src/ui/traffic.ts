// SPDX-License-Identifier: Apache-2.0
// How many bytes has each NIC received and sent, as metrics that the user has named say?

/** Received and sent, bytes since the plug. */
export type Counters = readonly [number, number];

/** How long one address may take, milliseconds. */
const TIMEOUT_MS = 2000;
/** Source: docs/reference/metrics.md */
const SAMPLE =
  /^kubevirt_vmi_network_(receive|transmit)_bytes_total\{([^}]*)\} (\d+(?:\.\d+)?(?:e\+?\d+)?)/gm;
const LABEL = /\b(namespace|name|interface)="((?:[^"\\]|\\.)*)"/g;

function labelsOf(text: string): Readonly<Record<string, string>> {
  return Object.fromEntries(
    [...text.matchAll(LABEL)].map(([, name = "", value = ""]) => [name, value]),
  );
}

/** Counters by `namespace/name/iface`, from the text format of Prometheus. */
export function parseTraffic(text: string): ReadonlyMap<string, Counters> {
  const found = new Map<string, Counters>();
  for (const [, way, labels = "", count = ""] of text.matchAll(SAMPLE)) {
    const { namespace = "", name = "", interface: iface = "" } = labelsOf(labels);
    const key = `${namespace}/${name}/${iface}`;
    const [received, sent] = found.get(key) ?? [0, 0];
    found.set(key, way === "receive" ? [Number(count), sent] : [received, Number(count)]);
  }
  return found;
}

async function readOne(url: string): Promise<ReadonlyMap<string, Counters>> {
  try {
    const response = await fetch(url, { signal: AbortSignal.timeout(TIMEOUT_MS) });
    return response.ok ? parseTraffic(await response.text()) : new Map();
  } catch {
    return new Map(); // it is not there now: the page shows no curve
  }
}

/** Of all addresses; one that does not answer counts nothing. */
export async function readTraffic(
  urls: readonly string[],
): Promise<Readonly<Record<string, Counters>>> {
  const all = await Promise.all(urls.map(readOne));
  return Object.fromEntries(all.flatMap((found) => [...found]));
}
