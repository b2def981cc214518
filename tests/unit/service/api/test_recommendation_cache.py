# SPDX-License-Identifier: Apache-2.0
"""The cache of recommendations: bounded in number and age."""

from ringtune.service.api.recommendation_cache import MAX_QUERY_BYTES, RecommendationCache


def test_an_entry_lives_for_its_time() -> None:
    """An entry older than the limit is asked for again."""
    now_s = [10.0]
    cache = RecommendationCache(entries_max=10, ttl_s=1.0, clock=lambda: now_s[0])
    cache.put(b"model=a", b"{}")

    now_s[0] = 10.9
    assert b"{}" == cache.get(b"model=a")
    assert cache.get(b"model=b") is None
    now_s[0] = 11.0
    assert cache.get(b"model=a") is None


def test_the_entry_that_was_not_used_for_longest_goes() -> None:
    """Made-up queries cannot fill the memory."""
    cache = RecommendationCache(entries_max=2, ttl_s=1.0, clock=lambda: 0.0)

    cache.put(b"a", b"1")
    cache.put(b"b", b"2")
    cache.get(b"a")
    cache.put(b"c", b"3")

    assert [b"1", None, b"3"] == [cache.get(query) for query in (b"a", b"b", b"c")]


def test_a_query_that_is_long_on_purpose_is_not_kept() -> None:
    """A parameter may be repeated for ever: the number of entries alone would not bound the memory."""
    cache = RecommendationCache(entries_max=2, ttl_s=1.0, clock=lambda: 0.0)
    longest = b"model=" + b"a" * (MAX_QUERY_BYTES - 6)

    cache.put(longest, b"1")
    cache.put(longest + b"a", b"2")

    assert [b"1", None] == [cache.get(query) for query in (longest, longest + b"a")]


def test_a_cache_of_none_keeps_none() -> None:
    """The setting may be 0: each recommendation is made anew then."""
    cache = RecommendationCache(entries_max=0, ttl_s=1.0, clock=lambda: 0.0)

    cache.put(b"a", b"1")

    assert cache.get(b"a") is None
