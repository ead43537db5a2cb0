// SPDX-License-Identifier: Apache-2.0
// What the process remembers of ifaces, until they or their VMIs are forgotten.

/** Entries by VMI uid and iface. */
export class IfaceMap<T> {
  readonly #byVmi = new Map<string, Map<string, T>>();

  get(uid: string, iface: string): T | undefined {
    return this.#byVmi.get(uid)?.get(iface);
  }

  set(uid: string, iface: string, entry: T): void {
    const ofVmi = this.#byVmi.get(uid) ?? new Map<string, T>();
    this.#byVmi.set(uid, ofVmi);
    ofVmi.set(iface, entry);
  }

  /** Forgets all ifaces of a VMI but these. */
  retain(uid: string, ifaces: readonly string[]): void {
    const ofVmi = this.#byVmi.get(uid);
    if (ofVmi === undefined) return;
    for (const iface of [...ofVmi.keys()]) {
      if (!ifaces.includes(iface)) ofVmi.delete(iface);
    }
    if (ofVmi.size === 0) this.#byVmi.delete(uid);
  }
}
