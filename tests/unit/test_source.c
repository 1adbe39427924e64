/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/pipe/source.h"

enum { SIZE = 16 };

/* A source whose input the test writes. */
struct world {
    struct source source;
    int input;
};

static void open_world(struct world *world, size_t size)
{
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(fcntl(ends[0], F_SETFL, O_NONBLOCK), 0);
    world->source = (struct source){.fd = ends[0], .separator = '\n'};
    assert_true(source_init(&world->source, size));
    world->input = ends[1];
}

static void end_input(struct world *world)
{
    assert_int_equal(close(world->input), 0);
    world->input = -1;
}

static void close_world(struct world *world)
{
    if (world->input >= 0) {
        end_input(world);
    }
    assert_int_equal(close(world->source.fd), 0);
    source_fini(&world->source);
}

static void feed(struct world *world, const char *bytes, size_t length)
{
    assert_int_equal(write(world->input, bytes, length), length);
    assert_true(source_read(&world->source));
}

/* The front item is this, and leaves. */
static void takes(struct world *world, const char *expected)
{
    struct source *source = &world->source;
    size_t length = strlen(expected);
    assert_int_equal(source_item_end(source, 0), length);
    assert_memory_equal(source_front(source), expected, length);
    source_consume(source, length);
}

static void lines_are_cut_after_their_separator(void **state)
{
    (void)state;
    struct world world;
    open_world(&world, SIZE);
    feed(&world, "a\nbc\n\nd", 7);
    assert_int_equal(source_item_end(&world.source, 2), 5); // the second, ahead of time
    assert_int_equal(source_item_end(&world.source, 6), 0); // the last has no end yet
    takes(&world, "a\n");
    takes(&world, "bc\n");
    takes(&world, "\n");
    assert_int_equal(source_item_end(&world.source, 0), 0);
    feed(&world, "e\n", 2);
    takes(&world, "de\n");
    assert_int_equal(source_item_end(&world.source, 0), 0);
    close_world(&world);
}

static void the_last_line_needs_no_separator(void **state)
{
    (void)state;
    struct world world;
    open_world(&world, SIZE);
    feed(&world, "a\nb", 3);
    takes(&world, "a\n");
    assert_int_equal(source_item_end(&world.source, 0), 0);
    end_input(&world);
    assert_false(world.source.ended);
    assert_true(source_read(&world.source));
    assert_true(world.source.ended);
    takes(&world, "b");
    close_world(&world);
}

static void no_input_yet_is_not_the_end(void **state)
{
    (void)state;
    struct world world;
    open_world(&world, SIZE);
    assert_true(source_read(&world.source)); // EAGAIN
    assert_false(world.source.ended);
    assert_int_equal(source_length(&world.source), 0);
    close_world(&world);
}

static void a_long_line_is_one_item_and_its_rest(void **state)
{
    (void)state;
    struct world world;
    open_world(&world, SIZE);
    feed(&world, "0123456789abcde", 15);
    assert_int_equal(source_item_end(&world.source, 0), 0); // there is still room
    feed(&world, "f", 1);
    assert_int_equal(source_rest(&world.source), 0);
    takes(&world, "0123456789abcdef");
    assert_true(world.source.inside);
    assert_int_equal(source_rest(&world.source), 0); // nothing is here
    feed(&world, "ghi", 3);
    assert_int_equal(source_rest(&world.source), 3);
    source_consume(&world.source, 3);
    feed(&world, "j\nk\n", 4);
    assert_int_equal(source_rest(&world.source), 2); // not the next line
    source_consume(&world.source, 2);
    assert_false(world.source.inside);
    takes(&world, "k\n");
    close_world(&world);
}

static void any_byte_may_separate_and_none_hurts(void **state)
{
    (void)state;
    struct world world;
    open_world(&world, SIZE);
    world.source.separator = '\0';
    feed(&world, "a\n\xff\0b\0", 6);
    assert_int_equal(source_item_end(&world.source, 0), 4);
    source_consume(&world.source, 4);
    assert_int_equal(source_item_end(&world.source, 0), 2);
    close_world(&world);
}

static void bytes_are_cut_into_pieces(void **state)
{
    (void)state;
    struct world world;
    open_world(&world, SIZE);
    world.source.by_bytes = true;
    world.source.piece_bytes = 4;
    feed(&world, "a\nb\nc\nd\ne", 9);
    takes(&world, "a\nb\n");
    assert_int_equal(source_item_end(&world.source, 2), 5); // from anywhere, as far as it goes
    takes(&world, "c\nd\n");
    takes(&world, "e");
    assert_int_equal(source_item_end(&world.source, 0), 0);
    close_world(&world);
}

/* Whatever the buffer's size and the reads: what comes out is what went in. */
static void every_size_passes_every_stream(void **state)
{
    (void)state;
    static const char TEXT[] = "one\n\ntwo\nthree three three\nfour\nfive five five five\n\n\nsix";
    for (size_t size = 1; size <= 24; size++) {
        for (size_t step = 1; step <= 7; step++) {
            struct world world;
            char out[sizeof TEXT];
            size_t out_length = 0;
            size_t items = 0;
            size_t fed = 0;
            open_world(&world, size);
            struct source *source = &world.source;
            for (;;) {
                size_t count = source_rest(source);
                if (count == 0 && !source->inside) {
                    count = source_item_end(source, 0);
                    items += count > 0;
                }
                if (count > 0) {
                    memcpy(out + out_length, source_front(source), count);
                    out_length += count;
                    source_consume(source, count);
                    continue;
                }
                if (source->ended) {
                    break;
                }
                size_t left = sizeof TEXT - 1 - fed;
                size_t some = left < step ? left : step;
                if (some > 0) {
                    assert_int_equal(write(world.input, TEXT + fed, some), some);
                    fed += some;
                } else if (world.input >= 0) {
                    end_input(&world);
                }
                assert_true(source_read(source));
            }
            assert_int_equal(out_length, sizeof TEXT - 1);
            assert_memory_equal(out, TEXT, out_length);
            assert_int_equal(items, 9);
            close_world(&world);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_are_cut_after_their_separator),
        cmocka_unit_test(the_last_line_needs_no_separator),
        cmocka_unit_test(no_input_yet_is_not_the_end),
        cmocka_unit_test(a_long_line_is_one_item_and_its_rest),
        cmocka_unit_test(any_byte_may_separate_and_none_hurts),
        cmocka_unit_test(bytes_are_cut_into_pieces),
        cmocka_unit_test(every_size_passes_every_stream),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
