/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A GPIO chip of two lines that are wired to each other: a change of line 0,
 * an output, is an edge at line 1, an input. The interrupt is that of a timer
 * which expires at once, so that its handler begins in hard interrupt context.
 */
#include <linux/gpio/driver.h>
#include <linux/platform_device.h>

#if IS_ENABLED(CONFIG_GPIOLIB_IRQCHIP)
#define GPIO_OUT 0
#define GPIO_IN 1

static struct gpio_loop {
	struct platform_device *parent;
	struct gpio_chip chip;
	struct hrtimer timer;
	unsigned int edges;	/* IRQ_TYPE_EDGE_…, 0: nobody waits */
	bool high, listening;
} gpio_loop;

static enum hrtimer_restart gpio_loop_edge(struct hrtimer *timer)
{
	generic_handle_domain_irq(gpio_loop.chip.irq.domain, GPIO_IN);
	return HRTIMER_NORESTART;
}

static void gpio_loop_change(unsigned int line, int high)
{
	unsigned int edge = high ? IRQ_TYPE_EDGE_RISING : IRQ_TYPE_EDGE_FALLING;

	if (line != GPIO_OUT || gpio_loop.high == !!high)
		return;
	gpio_loop.high = high;
	if (READ_ONCE(gpio_loop.listening) && (gpio_loop.edges & edge))
		hrtimer_start(&gpio_loop.timer, ns_to_ktime(0), HRTIMER_MODE_REL_HARD);
}

#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 17, 0)
static int gpio_loop_set(struct gpio_chip *chip, unsigned int line, int high)
{
	gpio_loop_change(line, high);
	return 0;
}
#else
static void gpio_loop_set(struct gpio_chip *chip, unsigned int line, int high)
{
	gpio_loop_change(line, high);
}
#endif

static int gpio_loop_get(struct gpio_chip *chip, unsigned int line)
{
	return gpio_loop.high;
}

static int gpio_loop_direction(struct gpio_chip *chip, unsigned int line)
{
	return line == GPIO_OUT ? GPIO_LINE_DIRECTION_OUT : GPIO_LINE_DIRECTION_IN;
}

static int gpio_loop_input(struct gpio_chip *chip, unsigned int line)
{
	return line == GPIO_IN ? 0 : -EOPNOTSUPP;
}

static int gpio_loop_output(struct gpio_chip *chip, unsigned int line, int high)
{
	if (line != GPIO_OUT)
		return -EOPNOTSUPP;
	gpio_loop_change(line, high);
	return 0;
}

static void gpio_loop_mask(struct irq_data *data)
{
	WRITE_ONCE(gpio_loop.listening, false);
	gpiochip_disable_irq(&gpio_loop.chip, irqd_to_hwirq(data));
}

static void gpio_loop_unmask(struct irq_data *data)
{
	gpiochip_enable_irq(&gpio_loop.chip, irqd_to_hwirq(data));
	WRITE_ONCE(gpio_loop.listening, true);
}

static int gpio_loop_type(struct irq_data *data, unsigned int type)
{
	if (type & ~(unsigned int)IRQ_TYPE_EDGE_BOTH)
		return -EINVAL;
	gpio_loop.edges = type;
	return 0;
}

static const struct irq_chip gpio_loop_irqs = {
	.name = "latlab-loop",
	.irq_mask = gpio_loop_mask,
	.irq_unmask = gpio_loop_unmask,
	.irq_set_type = gpio_loop_type,
	.flags = IRQCHIP_IMMUTABLE,
	GPIOCHIP_IRQ_RESOURCE_HELPERS,
};

/* A kernel that does not take it has the faults all the same. */
static void gpio_loop_add(void)
{
	struct gpio_chip *chip = &gpio_loop.chip;
	struct platform_device *parent = platform_device_register_simple("latlab-loop", -1, NULL, 0);

	if (IS_ERR(parent))
		return;
	hrtimer_init(&gpio_loop.timer, CLOCK_MONOTONIC, HRTIMER_MODE_REL_HARD);
	gpio_loop.timer.function = gpio_loop_edge;
	*chip = (struct gpio_chip){
		.label = "latlab-loop", .parent = &parent->dev, .owner = THIS_MODULE, .base = -1, .ngpio = 2,
		.get = gpio_loop_get, .set = gpio_loop_set, .get_direction = gpio_loop_direction,
		.direction_input = gpio_loop_input, .direction_output = gpio_loop_output,
	};
	gpio_irq_chip_set_chip(&chip->irq, &gpio_loop_irqs);
	chip->irq.handler = handle_simple_irq;
	chip->irq.default_type = IRQ_TYPE_NONE;
	if (gpiochip_add_data(chip, NULL)) {
		pr_info("latlab-loop: no GPIO chip\n");
		platform_device_unregister(parent);
		return;
	}
	gpio_loop.parent = parent;
}

static void gpio_loop_remove(void)
{
	if (!gpio_loop.parent)
		return;
	gpiochip_remove(&gpio_loop.chip);
	hrtimer_cancel(&gpio_loop.timer);
	platform_device_unregister(gpio_loop.parent);
}
#else
static void gpio_loop_add(void) { }
static void gpio_loop_remove(void) { }
#endif
