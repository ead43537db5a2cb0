// SPDX-License-Identifier: Apache-2.0
// Who is told of a change? Those who take everything, then those of the scopes that it is in, and nobody else.
import { rangeOf, scopesOf } from "./scope.ts";
import type { Change, Listener, Scope } from "./store.ts";

/** Everybody who wants to hear of changes. */
export class Followers {
  readonly #all = new Set<Listener>();
  /** By the first key of the scope's range. */
  readonly #scoped = new Map<string, Set<Listener>>();
  readonly #onError: (error: unknown) => void;

  /** `onError`: gets what a listener throws; the others are told all the same. */
  constructor(onError: (error: unknown) => void) {
    this.#onError = onError;
  }

  subscribe(listener: Listener): () => void {
    this.#all.add(listener);
    return () => {
      this.#all.delete(listener);
    };
  }

  follow(scope: Scope, listener: Listener): () => void {
    const [key] = rangeOf(scope);
    const listeners = this.#scoped.get(key) ?? new Set();
    this.#scoped.set(key, listeners.add(listener));
    return () => {
      listeners.delete(listener);
      if (listeners.size === 0 && this.#scoped.get(key) === listeners) {
        this.#scoped.delete(key);
      }
    };
  }

  /** Listeners of one scope are given the same array, so that they can share what they make of it. */
  tell(changes: readonly Change[]): void {
    this.#call(this.#all, changes);
    for (const [key, own] of this.#byScope(changes)) {
      this.#call(this.#scoped.get(key) ?? [], own);
    }
  }

  clear(): void {
    this.#all.clear();
    this.#scoped.clear();
  }

  #byScope(changes: readonly Change[]): ReadonlyMap<string, readonly Change[]> {
    const groups = new Map<string, Change[]>();
    for (const change of this.#scoped.size === 0 ? [] : changes) {
      for (const key of scopesOf(change.current.address).filter((each) => this.#scoped.has(each))) {
        const group = groups.get(key) ?? [];
        group.push(change);
        groups.set(key, group);
      }
    }
    return groups;
  }

  #call(listeners: Iterable<Listener>, changes: readonly Change[]): void {
    // A copy: who is told may leave.
    for (const listener of [...listeners]) {
      try {
        listener(changes);
      } catch (error) {
        this.#onError(error);
      }
    }
  }
}
